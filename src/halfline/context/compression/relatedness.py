"""Which stretches of other files have to do with what is being written: those that repeat its sequences of tokens.

What a small model takes from context are mostly continuations of what it has just read, so a line is worth as much as
it has in common with the text around the cursor: longer sequences more than shorter, rare tokens more than those of
every other line. A single line says little, and text with lines missing here and there is no text any more; worth is
therefore averaged over neighbours, and what goes, goes in stretches.

    of a line     sum over its tokens: weight(longest shared sequence that ends there) x log(1 + lines / lines with it)
    around it     that of it and its neighbours over their tokens, nearer ones counting more

`Related` ranks by this and meets a budget. But contexts differ far more than lines of one do: of some a model takes
nothing, of others a third of what it knows. `InCommon` therefore has a threshold in place of a budget, and a measure
that is the same for every context, however long: how many of 100 tokens end a shared sequence of three.
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

_SEQUENCE = 3
_LEAST_IN_COMMON = 0.08  # chosen, as are the two beside it, by a rule that docs/lab_log.md has
_NEIGHBOURS_IN_COMMON = 8
_MOST_NEAR = (
    1024  # characters before the cursor, about as many as this was chosen with: longer text shares more
)
_LEAST_NEAR = 512  # of less nothing can be told


class Related:
    """Leaves out the lines with the least worth around them until the budget is met, of equal ones the first."""

    def __init__(self, tokens: LineTokens) -> None:
        self._tokens = tokens

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        left = self._tokens.count(parts)
        cut: set[tuple[int, int]] = set()
        if left <= budget.num_tokens:
            return without(parts, cut, "unrelated")
        ranked = [
            (worth, place, position)
            for place, worths in enumerate(worth_around(parts, budget, self._tokens))
            for position, worth in enumerate(worths.tolist())
        ]
        for _, place, position in sorted(ranked):
            if left <= budget.num_tokens:
                break
            cut.add((place, position))
            left -= len(self._tokens.ids(parts[place].lines[position].text))
        return without(parts, cut, "unrelated")


def worth_around(parts: Sequence[LinedPart], budget: Budget, tokens: LineTokens) -> list[NDArray[np.float64]]:
    """Of each part, [its lines]: what a token around the line is worth, 0 if nothing is shared, 4 x log(1 + lines) at
    most.
    """
    shared = _sequences(budget, tokens)
    lines = [[tokens.ids(line.text) for line in part.lines] for part in parts]
    rarity = _rarity(lines)
    worths = []
    for own_lines in lines:
        own = np.array([_own_worth(line, shared, rarity) for line in own_lines])
        num_tokens = np.array([len(line) for line in own_lines], np.float64)
        worths.append(_summed(own, _NEIGHBOURS) / np.maximum(1e-9, _summed(num_tokens, _NEIGHBOURS)))
    return worths


def _sequences(budget: Budget, tokens: LineTokens) -> frozenset[tuple[int, ...]]:
    """All of up to `len(_WEIGHTS)` tokens around the cursor."""
    found: set[tuple[int, ...]] = set()
    for text in (budget.before[-_BEFORE:], budget.behind[:_BEHIND]):
        token_ids = [each for line in text.splitlines(True) for each in tokens.ids(line)]
        for length in range(1, len(_WEIGHTS) + 1):
            found.update(_sequences_of(token_ids, length))
    return frozenset(found)


def _rarity(parts: Sequence[Sequence[Sequence[int]]]) -> dict[int, float]:
    num_lines = sum(map(len, parts))
    counts = Counter(token_id for lines in parts for line in lines for token_id in set(line))
    return {token_id: math.log(1 + num_lines / count) for token_id, count in counts.items()}


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


class InCommon:
    """Leaves out every stretch of lines that has too little in common with the text before the cursor: of an unrelated
    context all, of a related one nothing, whatever the budget. Text of the document's own file stays, and all does
    near the beginning of a document, where what it is about has yet to be written.
    """

    def __init__(self, tokens: LineTokens) -> None:
        self._tokens = tokens

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        if len(budget.before) < _LEAST_NEAR:
            return without(parts, set(), "nothing in common")
        lines = budget.before[-_MOST_NEAR:].splitlines(True)
        near = [each for line in lines for each in self._tokens.ids(line)]
        shared = frozenset(_sequences_of(near, _SEQUENCE))
        cut = {
            (place, position)
            for place, part in enumerate(parts)
            if part.path is None or part.path != budget.path
            for position in np.flatnonzero(self._shares(part, shared) < _LEAST_IN_COMMON).tolist()
        }
        return without(parts, cut, "nothing in common")

    def _shares(self, part: LinedPart, shared: frozenset[tuple[int, ...]]) -> NDArray[np.float64]:
        """Around each line, the share of tokens with which a shared sequence ends; it may begin on a line before."""
        lines = [self._tokens.ids(line.text) for line in part.lines]
        num_tokens = np.array([len(line) for line in lines], np.float64)
        token_ids = [each for line in lines for each in line]
        ends = np.zeros(len(token_ids))
        for start, sequence in enumerate(_sequences_of(token_ids, _SEQUENCE)):
            ends[start + _SEQUENCE - 1] = sequence in shared
        stops = np.concatenate([[0], np.cumsum(num_tokens)]).astype(np.int64)
        own = np.diff(np.concatenate([[0.0], np.cumsum(ends)])[stops])
        summed = _summed(num_tokens, _NEIGHBOURS_IN_COMMON)
        return _summed(own, _NEIGHBOURS_IN_COMMON) / np.maximum(1e-9, summed)


def _sequences_of(token_ids: Sequence[int], length: int) -> Iterator[tuple[int, ...]]:
    return zip(*(token_ids[start:] for start in range(length)), strict=False)


def _summed(values: NDArray[np.float64], num_neighbours: int) -> NDArray[np.float64]:
    """Of each and so many to either side; the farthest of these have 1 / (`num_neighbours` + 1) of the weight."""
    if not len(values):
        return values
    weights = 1.0 - np.abs(np.arange(-num_neighbours, num_neighbours + 1)) / (num_neighbours + 1)
    return np.convolve(values, weights)[num_neighbours : num_neighbours + len(values)]
