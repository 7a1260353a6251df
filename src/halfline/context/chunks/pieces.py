"""A text in pieces that each fit: whole statements where they do, else the statements within, lines, sentences, words.

    class Store:           too long
        def get(self):     fits: a piece, with the line above
        def put(self):     fits: a piece
    LIMIT = 3              fits: a piece

Pieces stand next to each other without a gap: joined they are the text.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from halfline.context.chunks.statements import Start

CountTokens = Callable[[str], int]

# Where a single line is cut, the best first; between any two characters where nothing else is left.
_WITHIN_LINE = (
    re.compile(r"(?<=[.!?;])(?=\s)"),
    re.compile(r"(?<=[,)\]}])(?=\S)|(?<=[,)\]}\s])(?=\S)"),
    re.compile(r"(?<=\w)(?=\W)"),
)
_MAX_CHARACTER_BYTES = 4
_MOST_CHARACTERS = 8  # of a token, over as many as may be in a piece: code has 3 to 4
_LINE_ENDS = re.compile(r"(?<=\n)(?=[^\n])")


@dataclass(frozen=True, slots=True)
class Piece:
    """`text[start:stop]` and how many tokens it has by itself. `depth` is how deep within others it begins: of two
    places to cut at, the shallower is the better one.
    """

    start: int
    stop: int
    depth: int
    num_tokens: int


def fitting_pieces(
    text: str, starts: Sequence[Start], max_tokens: int, count_tokens: CountTokens
) -> Iterator[Piece]:
    """Pieces of at most `max_tokens`, but for a single character that has more."""
    yield from _Cutter(text, max_tokens, count_tokens).cut(0, len(text), 0, starts)


class _Cutter:
    def __init__(self, text: str, max_tokens: int, count_tokens: CountTokens) -> None:
        self._text = text
        self._max_tokens = max_tokens
        self._count = count_tokens

    def cut(self, start: int, stop: int, depth: int, inner: Sequence[Start]) -> Iterator[Piece]:
        """`inner` are the statements that begin within."""
        if start == stop:
            return
        level = min((each.depth for each in inner), default=None)
        if level is None:
            yield from self._lines(start, stop, depth)
            return
        places = [(start, depth), *((each.place, each.depth) for each in inner if each.depth == level)]
        ends = [place for place, _ in places[1:]] + [stop]
        position = 0
        for (first, own_depth), end in zip(places, ends, strict=True):
            below: list[Start] = []
            while position < len(inner) and inner[position].place < end:
                if first < inner[position].place:
                    below.append(inner[position])
                position += 1
            piece = self._whole(first, end, own_depth)
            if piece is None:
                yield from self.cut(first, end, own_depth, below)
            else:
                yield piece

    def _lines(self, start: int, stop: int, depth: int) -> Iterator[Piece]:
        """A statement with none within: its lines, one by one."""
        places = [start, *(found.start() for found in _LINE_ENDS.finditer(self._text, start, stop)), stop]
        for number, (first, end) in enumerate(pairwise(places)):
            own_depth = depth if number == 0 else depth + 1
            piece = self._whole(first, end, own_depth)
            if piece is None:
                yield from self._within_line(first, end, own_depth, 0)
            else:
                yield piece

    def _within_line(self, start: int, stop: int, depth: int, kind: int) -> Iterator[Piece]:
        """A line that is too long: its sentences, what of these is too long in its words, and at last in characters.

        Small ones are put together as far as they have no more bytes than there may be tokens: then they fit, and need
        not be encoded one by one.
        """
        if kind == len(_WITHIN_LINE):
            places = list(range(start, stop, max(1, self._max_tokens // _MAX_CHARACTER_BYTES)))
        else:
            places = [
                start,
                *(found.start() for found in _WITHIN_LINE[kind].finditer(self._text, start + 1, stop)),
            ]
        first = start
        for place, end in zip(places, [*places[1:], stop], strict=True):
            if first < place and self._num_bytes(first, end) > self._max_tokens:
                yield self._piece(first, place, depth + (first > start))
                first = place
            if self._num_bytes(place, end) > self._max_tokens:
                piece = self._whole(place, end, depth + (place > start))
                if piece is not None or end - place == 1:
                    yield piece or self._piece(place, end, depth + (place > start))
                else:
                    yield from self._within_line(place, end, depth + 1, kind + 1)
                first = end
        if first < stop:
            yield self._piece(first, stop, depth + (first > start))

    def _num_bytes(self, start: int, stop: int) -> int:
        """At least as many as tokens."""
        return len(self._text[start:stop].encode(errors="replace"))

    def _piece(self, start: int, stop: int, depth: int) -> Piece:
        return Piece(start, stop, depth, self._count(self._text[start:stop]))

    def _whole(self, start: int, stop: int, depth: int) -> Piece | None:
        """None: it has too many tokens, or so many characters that it nearly always has: then nobody counts. Small
        pieces of what would have fitted are put together again (chunking.py).
        """
        if stop - start > _MOST_CHARACTERS * self._max_tokens:
            return None
        piece = self._piece(start, stop, depth)
        return piece if piece.num_tokens <= self._max_tokens else None
