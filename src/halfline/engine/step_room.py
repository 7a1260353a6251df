"""How many rows of a prompt a step has room for: by number, and while anybody waits by time.

Idle work has time: it is stopped when somebody comes. A prompt beside which nobody waits may take longer steps, since
the fixed part of a step is then paid less often; whoever comes meanwhile waits for the rest of the step.
"""

from collections.abc import Mapping

from halfline.engine.options import EngineOptions
from halfline.engine.plan import Plan
from halfline.engine.sequence import Sequence
from halfline.engine.step_budget import StepBudget
from halfline.model.executor import BLOCK_TOKENS

_LONE_STEPS = 4
"""How much longer a step may take beside which nobody waits."""


class StepRoom:
    """One step at a time: `begin`, then `rows_for` each prompt in turn, then perhaps `learn`."""

    def __init__(self, options: EngineOptions) -> None:
        self._step_tokens = options.step_tokens
        self._step_ms = options.step_ms
        self._may_take_ms = options.step_ms  # the step that began last
        self._budget = StepBudget()

    def begin(self, *, shared: bool) -> None:
        """`shared`: others wait beside whatever prompt is in it."""
        self._may_take_ms = self._step_ms if shared else _LONE_STEPS * self._step_ms

    def full(self, num_tokens: Mapping[Sequence, int]) -> bool:
        """Whether the step takes no more than the tokens it has of each sequence."""
        return sum(num_tokens.values()) == self._step_tokens

    def rows_for(self, sequence: Sequence, num_tokens: Mapping[Sequence, int], *, hurry: bool) -> int:
        """How many of its pending tokens fit beside those the step has; 0 is none.

        In a hurry time counts too: the first prompt of a step gets at least a block, and none ends within one.
        """
        num_rows = sum(num_tokens.values())
        room = min(sequence.num_pending, self._step_tokens - num_rows)
        if not hurry:
            return room
        num_timed = self._budget.max_rows(sequence.num_computed, self._may_take_ms) - num_rows
        if all(count == 1 for count in num_tokens.values()):
            num_timed = max(num_timed, BLOCK_TOKENS)
        if room <= num_timed:
            return room
        return max(0, num_timed - (sequence.num_computed + num_timed) % BLOCK_TOKENS)

    def has_time(self, sequence: Sequence, num_tokens: Mapping[Sequence, int]) -> bool:
        """Whether one more row, of a sequence that nobody has to wait for, is done in time."""
        most = min(self._step_tokens, self._budget.max_rows(sequence.num_computed, self._may_take_ms))
        return sum(num_tokens.values()) < most

    def learn(self, plan: Plan, step_ms: float) -> None:
        """What a step took. Many that decode together say nothing of what a prompt's rows take."""
        if plan.num_rows < BLOCK_TOKENS or any(chunk.num_tokens > 1 for chunk in plan.chunks):
            self._budget.learn(plan.num_rows, plan.mean_place, step_ms)
