"""Which stretches of other files have to do with what is being written: those that repeat its sequences of tokens.

What a small model takes from context are mostly continuations of what it has just read, so a line is worth as much as
it has in common with the text around the cursor: longer sequences more than shorter, rare tokens more than those of
every other line. A single line says little, and text with lines missing here and there is no text any more; worth is
therefore averaged over neighbours, and what goes, goes in stretches.

    of a line     sum over its tokens: weight(longest shared sequence that ends there) x log(1 + lines / lines with it)
    around it     that of it and its neighbours over their tokens, nearer ones counting more
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from halfline.context.compression.passes import Budget, LinedPart, LineTokens, Shrunk, without

_WEIGHTS = (0.5, 2.0, 3.0, 4.0)
"""Of a token with which a sequence of one, two, three, four or more tokens ends that also stands around the cursor."""

_BEFORE, _BEHIND = 4096, 1024  # characters around the cursor
_NEIGHBOURS = 16  # lines to either side; 3 to 30 were tried (docs/lab_log.md)


class Related:
    """Leaves out the lines with the least worth around them until the budget is met, of equal ones the first."""

    def __init__(self, tokens: LineTokens) -> None:
        self._tokens = tokens

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        left = self._tokens.count(parts)
        cut: set[tuple[int, int]] = set()
        if left <= budget.num_tokens:
            return without(parts, cut, "unrelated")
        shared = self._sequences(budget)
        rarity = self._rarity(parts)
        ranked = [
            (worth, place, position)
            for place, part in enumerate(parts)
            for position, worth in enumerate(self._worth(part, shared, rarity))
        ]
        for _, place, position in sorted(ranked):
            if left <= budget.num_tokens:
                break
            cut.add((place, position))
            left -= len(self._tokens.ids(parts[place].lines[position].text))
        return without(parts, cut, "unrelated")

    def _sequences(self, budget: Budget) -> frozenset[tuple[int, ...]]:
        """All of up to `len(_WEIGHTS)` tokens around the cursor."""
        found: set[tuple[int, ...]] = set()
        for text in (budget.before[-_BEFORE:], budget.behind[:_BEHIND]):
            token_ids = [each for line in text.splitlines(True) for each in self._tokens.ids(line)]
            for length in range(1, len(_WEIGHTS) + 1):
                found.update(zip(*(token_ids[start:] for start in range(length)), strict=False))
        return frozenset(found)

    def _rarity(self, parts: Sequence[LinedPart]) -> dict[int, float]:
        lines = [self._tokens.ids(line.text) for part in parts for line in part.lines]
        counts = Counter(token_id for line in lines for token_id in set(line))
        return {token_id: math.log(1 + len(lines) / count) for token_id, count in counts.items()}

    def _worth(
        self, part: LinedPart, shared: frozenset[tuple[int, ...]], rarity: dict[int, float]
    ) -> Iterator[float]:
        lines = [self._tokens.ids(line.text) for line in part.lines]
        own = np.array([_own_worth(line, shared, rarity) for line in lines])
        around = _summed(own) / np.maximum(1e-9, _summed(np.array([float(len(line)) for line in lines])))
        yield from around.tolist()


def _own_worth(
    token_ids: Sequence[int], shared: frozenset[tuple[int, ...]], rarity: dict[int, float]
) -> float:
    worth = 0.0
    for stop in range(1, len(token_ids) + 1):
        for length in range(min(len(_WEIGHTS), stop), 0, -1):
            if tuple(token_ids[stop - length : stop]) in shared:
                worth += _WEIGHTS[length - 1] * rarity[token_ids[stop - 1]]
                break
    return worth


def _summed(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each and its neighbours; the farthest that count have 1 / (`_NEIGHBOURS` + 1) of the weight."""
    if not len(values):
        return values
    weights = 1.0 - np.abs(np.arange(-_NEIGHBOURS, _NEIGHBOURS + 1)) / (_NEIGHBOURS + 1)
    return np.convolve(values, weights)[_NEIGHBOURS : _NEIGHBOURS + len(values)]
