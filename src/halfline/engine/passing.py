"""Who is passed by others in one plan because it does not fit, and who may not pass it.

Finding out that a prompt does not fit costs a look-up, so only so many are tried. Knows neither blocks nor rows.
"""

from collections import Counter
from collections.abc import Iterable

from halfline.engine.sequence import Sequence
from halfline.engine.urgency import Flow, Flows, Urgency, flow_of

_MAX_PASSED = 16  # of one flow
_MAX_PASSED_OF_ALL = 48


class Passing:
    """Of one plan. `running` is looked at anew each time."""

    def __init__(self, urgency: Urgency, running: Iterable[Sequence], now: float) -> None:
        self._urgency = urgency
        self._running = running
        self._now = now
        self._passed: Counter[Flow] = Counter()
        self._num_passed = 0
        self._held_back: list[Flows] = []

    def may_try(self, sequence: Sequence) -> bool:
        """Whether it is this one's turn to take blocks, if it fits."""
        flow = flow_of(sequence)
        if self._num_passed == _MAX_PASSED_OF_ALL or self._passed[flow] == _MAX_PASSED:
            return False
        if not any(flow[: len(each)] == each for each in self._held_back):
            return True
        if not self._passed[flow] and self._urgency.owing(sequence, self._running, self._now):
            return True
        self._passed[flow] = self._passed[flow] or 1  # looked at: the others of its flow are owed no more
        return False

    def does_not_fit(self, sequence: Sequence) -> None:
        """It was tried in vain."""
        self._passed[flow_of(sequence)] += 1
        self._num_passed += 1
        behind = self._urgency.held_back(sequence, self._now)
        if behind is not None:
            self._held_back.append(behind)
