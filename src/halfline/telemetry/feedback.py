"""What became of the answers that were shown: how many were kept, and how sure the model had been of those.

Remembers the latest answers by their ids, a few numbers each, and never a text. Knows no HTTP.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

EventKind = Literal["shown", "accepted", "dismissed"]

MIN_ANSWERS = 50
"""Fewer say nothing about a threshold."""


@dataclass(frozen=True, slots=True)
class Event:
    """`characters` of the answer were accepted; None: the client does not say how many."""

    completion_id: str
    kind: EventKind
    characters: int | None = None


@dataclass(slots=True)
class Fate:
    """Of one answer that was shown. `confidence` as in its receipt; `accepted` if any part of it was."""

    confidence: float | None
    accepted: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """Showing only answers of at least `min_confidence` would have had `kept_rate` of them kept, and shown
    `shown_share` of those that were.
    """

    min_confidence: float
    kept_rate: float
    shown_share: float
    num_answers: int


class Feedback:
    """The latest `max_kept` answers that somebody told of, each tenant's apart."""

    def __init__(self, max_kept: int = 4096) -> None:
        self._max_kept = max_kept
        self._fates: OrderedDict[tuple[str, str], Fate] = OrderedDict()  # by tenant and completion

    def record(self, tenant: str, event: Event, confidence: float | None) -> None:
        """An answer counts as shown whatever is told of it; one that was accepted stays so. `confidence` None: nobody
        knows, or not yet.
        """
        key = (tenant, event.completion_id)
        fate = self._fates.pop(key, None) or Fate(confidence)
        fate.confidence = confidence if fate.confidence is None else fate.confidence
        fate.accepted = fate.accepted or event.kind == "accepted"
        self._fates[key] = fate
        if len(self._fates) > self._max_kept:
            self._fates.popitem(last=False)

    def fates(self) -> list[Fate]:
        """Of all answers."""
        return list(self._fates.values())

    def fates_of(self, tenant: str) -> list[Fate]:
        """What a tenant may know: of its own answers."""
        return [fate for (owner, _), fate in self._fates.items() if owner == tenant]


def kept_rate(fates: Sequence[Fate]) -> float | None:
    """Share of the shown that were accepted, in part or whole; None: nothing was shown."""
    return sum(fate.accepted for fate in fates) / len(fates) if fates else None


def propose(fates: Sequence[Fate], wanted_rate: float) -> Proposal | None:
    """The lowest threshold above which at least `wanted_rate` of the answers were kept; None: no threshold does that,
    or too few answers are known with their confidence (`MIN_ANSWERS`).
    """
    known = sorted(
        ((fate.confidence, fate.accepted) for fate in fates if fate.confidence is not None), reverse=True
    )
    best = None
    num_accepted = 0
    for count, (confidence, accepted) in enumerate(known, 1):
        num_accepted += accepted
        is_last_of_its_like = count == len(known) or known[count][0] < confidence
        if is_last_of_its_like and count >= MIN_ANSWERS and num_accepted >= wanted_rate * count:
            best = Proposal(confidence, num_accepted / count, count / len(known), len(known))
    return best
