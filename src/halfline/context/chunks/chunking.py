"""A text in chunks that a prompt can hold: cut between statements, where it parts the fewest names.

Finding the cuts is a shortest path: a node is a place between two pieces, an edge a chunk, its cost that of the cut at
its beginning. One pass, with the cheapest predecessors that are near enough in a queue.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from halfline.context.chunks.names import parting_costs
from halfline.context.chunks.pieces import CountTokens, Piece, fitting_pieces
from halfline.context.chunks.statements import statement_starts

MAX_TOKENS = 384
MAX_HEAD_TOKENS = 128
"""Of a chunk of instructions: with one of text it is 512."""

_LEAST_TOKENS = 4

# In names, of which neighbouring statements share a few. A cut costs something in itself, or each would be alone.
_CUT_COST = 3.0
_DEPTH_COST = 3.0
_HEADER_COST = 4.0  # of parting a header from the first statement below it


def chunk_by_ner_overlap(
    text: str, max_tokens: int = MAX_TOKENS, *, count_tokens: CountTokens, path: str | None = None
) -> list[str]:
    """The text in chunks of at most `max_tokens` each, as `count_tokens` counts them; joined they are the text.

    `path` says which language it is, where the extra `syntax` is there. Only a single character may have more tokens
    than that. Raises ValueError for less than 4 tokens.
    """
    if max_tokens < _LEAST_TOKENS:
        raise ValueError(f"max_tokens is {max_tokens}, it must be at least {_LEAST_TOKENS}")
    if not text:
        return []
    pieces = list(fitting_pieces(text, statement_starts(text, path), max_tokens, count_tokens))
    parted = parting_costs([text[each.start : each.stop] for each in pieces])
    costs = [0.0]
    for before, piece, names in zip(pieces, pieces[1:], parted[1:], strict=False):
        header = _HEADER_COST if piece.depth > before.depth else 0.0
        costs.append(_CUT_COST + _DEPTH_COST * piece.depth + header + names)
    return [
        text[pieces[first].start : pieces[stop - 1].stop]
        for first, stop in _ranges(text, pieces, costs, max_tokens, count_tokens)
    ]


def _ranges(
    text: str, pieces: Sequence[Piece], costs: Sequence[float], max_tokens: int, count_tokens: CountTokens
) -> Iterator[tuple[int, int]]:
    """Of the pieces, those of each chunk. Tokens of neighbours need not add up, they may merge otherwise side by side:
    a chunk that has too many though the sum of its pieces is not, is cut once more.
    """
    todo = [(0, len(pieces), max_tokens)]  # the next on top
    while todo:
        first, stop, limit = todo.pop()
        found = [
            (first + low, first + high)
            for low, high in _cheapest(pieces[first:stop], costs[first:stop], limit)
        ]
        if len(found) > 1:
            todo += [(low, high, max_tokens) for low, high in reversed(found)]
            continue
        num_tokens = count_tokens(text[pieces[first].start : pieces[stop - 1].stop])
        if num_tokens > max_tokens and stop - first > 1:
            todo.append((first, stop, sum(each.num_tokens for each in pieces[first:stop]) - 1))
        else:
            yield first, stop


def _cheapest(pieces: Sequence[Piece], costs: Sequence[float], max_tokens: int) -> list[tuple[int, int]]:
    """The ranges of pieces, of at most so many tokens by their sums, whose cuts cost least together."""
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + piece.num_tokens)
    best = [0.0]  # of the first so many pieces
    cut_before = [0]
    near: deque[int] = deque()  # where a chunk that ends here may begin, cheapest first
    for stop in range(1, len(pieces) + 1):
        begin = stop - 1
        while near and _price(best, costs, near[-1]) >= _price(best, costs, begin):
            near.pop()
        near.append(begin)
        while len(near) > 1 and ends[stop] - ends[near[0]] > max_tokens:
            near.popleft()
        best.append(_price(best, costs, near[0]))
        cut_before.append(near[0])
    ranges = []
    stop = len(pieces)
    while stop:
        ranges.append((cut_before[stop], stop))
        stop = cut_before[stop]
    return ranges[::-1]


def _price(best: Sequence[float], costs: Sequence[float], begin: int) -> float:
    """Of everything before, and the cut there."""
    return best[begin] + (costs[begin] if begin else 0.0)
