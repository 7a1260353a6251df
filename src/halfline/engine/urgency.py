"""Whose turn it is: in which order prompts get a step's rows, and in which order sequences lose their blocks.

First the class: interactive before batch before idle. Within a class the key, then the user of that key, that was
served least (fair_shares.py), to a quantum: less than that is no reason to make a keystroke wait. Then the earliest
deadline, then the shortest.

    waits since   + patience      + 2 patience      + 3 patience
    idle ──────────── batch ───────── interactive ────── before everybody
                      batch ───────── as interactive ─── (batch: before everybody one patience earlier, and so on)

What waits is a *key*, of a class: since it last got rows of a prompt, or asked for the first. So waiting buys it the
rows of one step, and a flood, however old, its share and no more. Among the users of a key it is the same. Of one
user's prompts those that are old enough go in the order of their arrival.

Nobody starves: a key that has waited that long is passed only by those that have waited longer, once each, and has its
rows; so within it has the user; and within that user's prompts each is passed by those that came before it, and by
finitely many others. Where the next of them does not fit, `held_back` says who may not take the room meanwhile, and
`owing` who gives some up: that is all that others may take then, who have waited long enough and have less.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Series
from heapq import merge

from halfline.engine.fair_shares import FairShares
from halfline.engine.sequence import Sequence
from halfline.request import Priority

QUANTUM_TOKENS = 512
"""Two flows of the same class that both wait drift apart by no more than this and one step."""

_CLASSES: dict[Priority, int] = {"interactive": 0, "batch": 1, "idle": 2}

IDLE = _CLASSES["idle"]

_BEFORE_EVERYBODY = -1

Flow = tuple[int, str, str]
"""A class, a key and one of its users."""

Flows = tuple[int | str, ...]
"""The beginning of one or more: one flow, all of a key and class, or with () all there are."""


class Urgency:
    """Told of every sequence that arrives, computes and leaves. Times are the clock's seconds."""

    def __init__(self, patience_s: float, step_tokens: int) -> None:
        self._patience_s = patience_s
        self._step_tokens = step_tokens
        # One account per class: a user's idle work must not cost the same user's next keystroke its turn.
        self._keys = [FairShares() for _ in _CLASSES]
        self._users: list[dict[str, FairShares]] = [{} for _ in _CLASSES]
        self._present: dict[
            tuple[int, str], dict[Sequence, None]
        ] = {}  # by class and key, the earliest first

    def arrived(self, sequence: Sequence) -> None:
        cls, key, user = flow_of(sequence)
        self._keys[cls].entered(key)
        self._users[cls].setdefault(key, FairShares()).entered(user)
        self._present.setdefault((cls, key), {})[sequence] = None

    def left(self, sequence: Sequence) -> None:
        cls, key, user = flow_of(sequence)
        self._keys[cls].left(key)
        users = self._users[cls][key]
        users.left(user)
        del self._present[cls, key][sequence]
        if users.empty:
            del self._users[cls][key], self._present[cls, key]

    def ran(self, sequence: Sequence, num_tokens: int) -> None:
        """So many of its tokens were computed."""
        cls, key, user = flow_of(sequence)
        self._keys[cls].charge(key, num_tokens)
        self._users[cls][key].charge(user, num_tokens)

    def had_rows(self, sequence: Sequence, now: float) -> None:
        """Tokens of its prompt were computed: its key's turn is over, and its user's."""
        cls, key, user = flow_of(sequence)
        self._keys[cls].had_turn(key, now)
        self._users[cls][key].had_turn(user, now)

    def rank(self, sequence: Sequence, now: float) -> int:
        """Its class when it comes to blocks and pauses: 0 is interactive, `IDLE` is idle. Waiting lifts the earliest of
        a key only, so that a crowd of old ones leaves the blocks to keystrokes, and yet each has its time.
        """
        cls, key, _ = flow_of(sequence)
        earliest = next(iter(self._present[cls, key]))
        return max(0, self._lifted(cls, sequence.submitted_at, now)) if sequence is earliest else cls

    def line_up(self, sequences: Iterable[Sequence], now: float) -> Iterable[Sequence]:
        """The most urgent first. Each user's have an order of their own, and compete by the first of it."""
        queues: dict[Flow, list[Sequence]] = defaultdict(list)
        for sequence in sequences:
            queues[flow_of(sequence)].append(sequence)
        places = {}
        for flow, queue in queues.items():
            places[flow] = self._place(flow, min(each.submitted_at for each in queue), now)
            queue.sort(key=lambda each: self._place_in_queue(each, now))
        return merge(
            *queues.values(),
            key=lambda each: (places[flow_of(each)], _due(each), each.num_pending, each.id),
        )

    def held_back(self, sequence: Sequence, now: float) -> Flows | None:
        """Who may take no blocks as long as this one, the most urgent of its flow, does not fit; None: all may.

        First it is the rest of the flow. Then this user waits, so the key's; then the key waits, so all.
        """
        cls, key, user = flow = flow_of(sequence)
        if not self._overdue(cls, sequence.submitted_at, now):
            return None
        if self._overdue(cls, self._keys[cls].waits_since(key, sequence.submitted_at), now):
            return ()
        if self._overdue(cls, self._users[cls][key].waits_since(user, sequence.submitted_at), now):
            return cls, key
        return flow

    def owing(self, sequence: Sequence, running: Iterable[Sequence], now: float) -> list[Sequence]:
        """Who of the `running`, the earliest first, gives way to this one, although no less urgent than it: where its
        key, or its user, has waited long enough, the latest of whoever has more of them than one beyond what it has
        itself. So nobody waits for as long as others' answers are, and nobody takes from whom it then owes.
        """
        cls, key, user = flow_of(sequence)
        asked_at = sequence.submitted_at
        if not self._overdue(cls, asked_at, now):
            return []
        by_key: dict[str, list[Sequence]] = defaultdict(list)
        by_user: dict[str, list[Sequence]] = defaultdict(list)
        for each in running:
            its_cls, its_key, its_user = flow_of(each)
            if its_cls >= cls:
                by_key[its_key].append(each)
                if its_key == key:
                    by_user[its_user].append(each)
        found: list[Sequence] = []
        if self._overdue(cls, self._keys[cls].waits_since(key, asked_at), now):
            found += _more_than(key, by_key)
        if self._overdue(cls, self._users[cls][key].waits_since(user, asked_at), now):
            found += _more_than(user, by_user)
        return found

    def _place(self, flow: Flow, asked_at: float, now: float) -> tuple[int, float, int, float]:
        """A flow's place among the others, whose first prompt was asked for then; lower is sooner."""
        cls, key, user = flow
        keys, users = self._keys[cls], self._users[cls][key]
        key_since, user_since = keys.waits_since(key, asked_at), users.waits_since(user, asked_at)
        lifted = self._lifted(cls, key_since, now)
        user_waits = self._overdue(cls, user_since, now)
        return (
            lifted,
            key_since if lifted == _BEFORE_EVERYBODY else keys.lead(key) // QUANTUM_TOKENS,
            0 if user_waits else 1,
            user_since if user_waits else users.lead(user) // QUANTUM_TOKENS,
        )

    def _place_in_queue(self, sequence: Sequence, now: float) -> tuple[int, float, int, int]:
        """A sequence's place among those of its user; lower is sooner."""
        if self._overdue(_CLASSES[sequence.work.priority], sequence.submitted_at, now):
            return 0, 0.0, 0, sequence.id
        # Short prompts overtake long ones, but a long one only for as many steps as it would itself take.
        size = sequence.num_pending + sequence.arrival_step * self._step_tokens
        return 1, _due(sequence), size, sequence.id

    def _lifted(self, cls: int, since: float, now: float) -> int:
        """The class of what has waited since then."""
        return max(_BEFORE_EVERYBODY, cls - int((now - since) / self._patience_s))

    def _overdue(self, cls: int, since: float, now: float) -> bool:
        return self._lifted(cls, since, now) == _BEFORE_EVERYBODY


def flow_of(sequence: Sequence) -> Flow:
    return _CLASSES[sequence.work.priority], sequence.work.key, sequence.work.user


def _more_than(own: str, shares: Mapping[str, Series[Sequence]]) -> list[Sequence]:
    """The latest of the others' beyond one more than its own."""
    num_kept = len(shares.get(own, ())) + 1
    return [each for name, share in shares.items() if name != own for each in share[num_kept:]]


def _due(sequence: Sequence) -> float:
    return math.inf if sequence.due_at is None else sequence.due_at
