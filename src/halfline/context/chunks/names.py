"""Which names occur in which piece, and what it costs to part those that occur together."""

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise

_NAME = re.compile(r"[^\W\d]\w\w+")


def names_in(text: str) -> frozenset[str]:
    """Identifiers and words of three characters and more."""
    return frozenset(_NAME.findall(text))


def parting_costs(pieces: Sequence[str]) -> list[float]:
    """For each piece, what a cut before it parts, in names: every name is worth one, spread evenly over the ways from
    one of its pieces to the next. So a name of two neighbours is lost by the cut between them, and one that occurs
    everywhere, as keywords do, hardly minds any. The first piece's is 0.
    """
    occurrences: dict[str, list[int]] = {}
    for position, piece in enumerate(pieces):
        for name in dict.fromkeys(_NAME.findall(piece)):
            occurrences.setdefault(name, []).append(position)
    changes = [0.0] * (len(pieces) + 1)
    for positions in occurrences.values():
        for first, second in pairwise(positions):
            share = 1.0 / (len(positions) - 1)
            changes[first + 1] += share
            changes[second + 1 if second + 1 <= len(pieces) else len(pieces)] -= share
    return list(accumulate(changes))[: len(pieces)]
