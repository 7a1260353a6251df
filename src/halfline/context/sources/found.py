"""Pieces of other files, why they were chosen, and how sources share the room for them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from halfline.context.documents import DocumentKey
from halfline.request import Document, Part

_CHARACTERS = 4  # of a token of code, about
_LEAST_ALIKE = 0.08
_MOST_ALIKE = 0.8
"""More is probably a copy, which the model would only repeat."""


@dataclass(frozen=True, slots=True)
class Found:
    """A piece, why it is here, in words that a receipt can show, and how well it fits, within its own source."""

    part: Part
    reason: str
    score: float


class Source(Protocol):
    """Looks for pieces, in any order. `key` None: nobody says whose document it is. Called from any thread."""

    def find(self, document: Document, key: DocumentKey | None) -> Sequence[Found]: ...


class RankedSources:
    """Several sources, best first, that share room for about `num_tokens` tokens."""

    def __init__(self, sources: Sequence[Source], num_tokens: int) -> None:
        self._sources = tuple(sources)
        self._num_characters = num_tokens * _CHARACTERS

    def find(self, document: Document, key: DocumentKey | None) -> list[Found]:
        """The best last."""
        return choose([source.find(document, key) for source in self._sources], self._num_characters)


def similarity(wanted: frozenset[str], used: frozenset[str]) -> float | None:
    """The share of names in common, of all of both (Jaccard); None: too few to mean anything, or all too many."""
    either = wanted | used
    share = len(wanted & used) / len(either) if either else 0.0
    return share if _LEAST_ALIKE <= share <= _MOST_ALIKE else None


def choose(by_source: Sequence[Sequence[Found]], num_characters: int) -> list[Found]:
    """Of each source the best that fit into its even share of the room; what one leaves unused is the next one's.

    Sources are named best first, and their pieces stand so that the best is last. Of equal pieces the first is taken,
    and equal scores are told apart by path and text, so that the same pieces come in the same order always.
    """
    chosen: list[list[Found]] = []
    texts: set[str] = set()
    left = num_characters
    for place, found in enumerate(by_source):
        share = left // (len(by_source) - place)
        taken = _fitting(found, share, texts)
        left -= sum(len(each.part.text) for each in taken)
        chosen.append(taken)
    return [each for taken in reversed(chosen) for each in reversed(taken)]


def _fitting(found: Iterable[Found], room: int, texts: set[str]) -> list[Found]:
    """The best first; too long a piece leaves its place to those behind it. `texts` are those that were taken."""
    taken = []
    for each in sorted(found, key=lambda one: (-one.score, one.part.path or "", one.part.text)):
        if len(each.part.text) <= room and each.part.text not in texts:
            texts.add(each.part.text)
            room -= len(each.part.text)
            taken.append(each)
    return taken
