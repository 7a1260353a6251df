"""What a prompt has room for, of more text of other files than that: definitions first, then what is related.

A server that is sent whole files and has room for a tenth of them leaves most out in any case. Cut off where the room
ends, what is left are the files' first lines: licences, imports, helpers. Better are the definitions of names that the
document uses (its imports among them), each with its first lines, and then whatever has most in common with the text
around the cursor (relatedness.py).

    worth of a line    of its surroundings + 1 at the line that defines a used name, falling to 0 twenty lines on

The surroundings of most lines of one project are worth 0.6 to 2.6 (16 pieces of 64 lines of this one), those of a copy
of what stands at the cursor 12: so a definition stays before what is about as related as itself, and a near copy before
any. Where everything fits nothing is left out.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from halfline.context.compression.passes import Budget, LinedPart, LineTokens, Shrunk, without
from halfline.context.compression.relatedness import worth_around
from halfline.context.compression.words import names
from halfline.context.sources.definitions import MAX_LINES, definitions

_NAMES_BEFORE, _NAMES_BEHIND = 65_536, 4_096
"""Characters of the document in which its names are looked for: as far as its imports, in all but huge files."""

MARKER_TOKENS = 2
"""Of a part: the one of a file, or those of a comment; its path is counted apart."""


class Wanted:
    """Leaves out the lines with the least worth until the parts fit `budget.room`, with their paths; of equal ones the
    first.
    """

    def __init__(self, tokens: LineTokens) -> None:
        self._tokens = tokens

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        heads = [self._head(part) for part in parts]
        left = self.cost(parts)
        cut: set[tuple[int, int]] = set()
        if left <= budget.room:
            return without(parts, cut, "no room")
        num_kept = [len(part.lines) for part in parts]
        for place, position in self._least_first(parts, budget):
            if left <= budget.room:
                break
            cut.add((place, position))
            left -= len(self._tokens.ids(parts[place].lines[position].text))
            num_kept[place] -= 1
            if not num_kept[place]:
                left -= heads[place]
        return without(parts, cut, "no room")

    def cost(self, parts: Sequence[LinedPart]) -> int:
        """Tokens of their lines and of the paths of those that have any."""
        return self._tokens.count(parts) + sum(map(self._head, parts))

    def _head(self, part: LinedPart) -> int:
        return MARKER_TOKENS + len(self._tokens.ids(f"{part.path}\n")) if part.lines else 0

    def _least_first(self, parts: Sequence[LinedPart], budget: Budget) -> list[tuple[int, int]]:
        used = frozenset(names(budget.before[-_NAMES_BEFORE:]) + names(budget.behind[:_NAMES_BEHIND]))
        ranked = []
        for place, worths in enumerate(worth_around(parts, budget, self._tokens)):
            worths = worths + _defining(parts[place], used)
            ranked += [(worth, place, position) for position, worth in enumerate(worths.tolist())]
        return [(place, position) for _, place, position in sorted(ranked)]


def _defining(part: LinedPart, used: frozenset[str]) -> NDArray[np.float64]:
    """[lines]: 1 at the first line of a definition whose name is used, falling evenly to 0 after `MAX_LINES`."""
    worths = np.zeros(len(part.lines))
    for each in definitions(part.text, part.path or ""):
        if each.name in used:
            lines = slice(each.first, min(each.stop, len(worths)))
            falling = 1.0 - np.arange(max(0, lines.stop - lines.start)) / MAX_LINES
            worths[lines] = np.maximum(worths[lines], falling)
    return worths
