"""Ways to leave something out without thinking, which every pass has to beat: the end, evenly, by lot."""

import random
from collections.abc import Iterable, Sequence

from halfline.context.compression.passes import Budget, LinedPart, LineTokens, Shrunk, without


class Nothing:
    """Leaves nothing out."""

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        return without(parts, set(), "nothing")


class KeepTail:
    """Keeps what is nearest to the document: the last lines of the last parts."""

    def __init__(self, tokens: LineTokens) -> None:
        self._tokens = tokens

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        return _cut(parts, _places(parts), self._tokens, budget, "head")


class Uniform:
    """Leaves out lines at even distances."""

    def __init__(self, tokens: LineTokens) -> None:
        self._tokens = tokens

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        places = _places(parts)
        golden = (5**0.5 - 1) / 2  # its multiples fill an interval evenly, however many there are
        spread = sorted(range(len(places)), key=lambda number: (number * golden) % 1)
        return _cut(parts, [places[number] for number in spread], self._tokens, budget, "uniform")


class Random:
    """Leaves out lines by lot; the same seed draws the same ones of the same parts."""

    def __init__(self, tokens: LineTokens, seed: int = 0) -> None:
        self._tokens = tokens
        self._seed = seed

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        places = _places(parts)
        random.Random(self._seed).shuffle(places)
        return _cut(parts, places, self._tokens, budget, "random")


def _places(parts: Sequence[LinedPart]) -> list[tuple[int, int]]:
    return [(place, position) for place, part in enumerate(parts) for position in range(len(part.lines))]


def _cut(
    parts: Sequence[LinedPart],
    order: Iterable[tuple[int, int]],
    tokens: LineTokens,
    budget: Budget,
    reason: str,
) -> Shrunk:
    """Without lines, in this order, until the rest fits."""
    left = tokens.count(parts)
    cut = set()
    for place, position in order:
        if left <= budget.num_tokens:
            break
        cut.add((place, position))
        left -= len(tokens.ids(parts[place].lines[position].text))
    return without(parts, cut, reason)
