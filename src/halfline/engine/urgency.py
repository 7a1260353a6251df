"""Whose turn it is: in which order prompts get a step's rows, and in which order sequences lose their blocks.

First the class: interactive before batch before idle, where each `patience_s` of waiting lifts a sequence one class.
Within a class the key, then the user of that key, that was served least (fair_shares.py), to a quantum: less than that
is no reason to make a keystroke wait. Then the earliest deadline, then the shortest.

    submitted          + patience      + 2 patience      + 3 patience
    idle ──────────────── batch ───────── interactive ────── matured
                          batch ───────── as interactive ─── (batch: matured one patience earlier, and so on)

Nobody starves: once matured, a sequence is passed only by those that matured, or were due, before it. All of these
were submitted before that moment, so they are finitely many, and each ends.
"""

import math

from halfline.engine.fair_shares import FairShares
from halfline.engine.sequence import Sequence
from halfline.request import Priority

QUANTUM_TOKENS = 512
"""Two flows of the same class that both wait drift apart by no more than this and one step."""

_CLASSES: dict[Priority, int] = {"interactive": 0, "batch": 1, "idle": 2}

IDLE = _CLASSES["idle"]

Order = tuple[int, int, int, float, int, int]


class Urgency:
    """Told of every sequence that arrives, computes and leaves. Times are the clock's seconds."""

    def __init__(self, patience_s: float, step_tokens: int) -> None:
        self._patience_s = patience_s
        self._step_tokens = step_tokens
        # One account per class: a user's idle work must not cost the same user's next keystroke its turn.
        self._tenants = [FairShares() for _ in _CLASSES]
        self._users: list[dict[str, FairShares]] = [{} for _ in _CLASSES]

    def arrived(self, sequence: Sequence) -> None:
        cls, tenant = _CLASSES[sequence.work.priority], sequence.work.tenant
        self._tenants[cls].entered(tenant)
        self._users[cls].setdefault(tenant, FairShares()).entered(sequence.work.user)

    def left(self, sequence: Sequence) -> None:
        cls, tenant = _CLASSES[sequence.work.priority], sequence.work.tenant
        self._tenants[cls].left(tenant)
        users = self._users[cls][tenant]
        users.left(sequence.work.user)
        if users.empty:
            del self._users[cls][tenant]

    def ran(self, sequence: Sequence, num_tokens: int) -> None:
        """So many of its tokens were computed."""
        cls, tenant = _CLASSES[sequence.work.priority], sequence.work.tenant
        self._tenants[cls].charge(tenant, num_tokens)
        self._users[cls][tenant].charge(sequence.work.user, num_tokens)

    def rank(self, sequence: Sequence, now: float) -> int:
        """Its class by now: 0 is interactive, `IDLE` is idle."""
        num_lifts = int((now - sequence.submitted_at) / self._patience_s)
        return max(0, _CLASSES[sequence.work.priority] - num_lifts)

    def matured(self, sequence: Sequence, now: float) -> bool:
        """Whether it has waited so long that nobody who comes later may pass it."""
        return now >= self._matures_at(sequence)

    def order(self, sequence: Sequence, now: float) -> Order:
        """Lower is sooner."""
        if self.matured(sequence, now):
            return (0, 0, 0, self._matures_at(sequence), 0, sequence.id)
        cls, tenant = _CLASSES[sequence.work.priority], sequence.work.tenant
        return (
            self.rank(sequence, now),
            self._tenants[cls].lead(tenant) // QUANTUM_TOKENS,
            self._users[cls][tenant].lead(sequence.work.user) // QUANTUM_TOKENS,
            math.inf if sequence.due_at is None else sequence.due_at,
            # Short prompts overtake long ones, but a long one only for as many steps as it would itself take.
            sequence.num_pending + sequence.arrival_step * self._step_tokens,
            sequence.id,
        )

    def worth(self, sequence: Sequence, now: float) -> tuple[int, int]:
        """Who keeps blocks that somebody else needs: lower keeps them longer."""
        return self.rank(sequence, now), sequence.id

    def _matures_at(self, sequence: Sequence) -> float:
        return sequence.submitted_at + (_CLASSES[sequence.work.priority] + 1) * self._patience_s
