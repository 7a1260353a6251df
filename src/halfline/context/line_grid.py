"""A window before the cursor for a document of which nothing is remembered: a function of its text alone.

    line 0   32   64   96        █ cursor
         │    │    ├────┼────────┤
         └ left out ┘    window: begins on the grid, at most `max_tokens`

The start may only be on a grid of lines, counted from the document's beginning. While text is typed at the cursor
the start does not move, so each keystroke's prompt begins like the last one's and its KV is reused (C1); when the
window is full the start jumps one cell ahead. Finer grids are used where cells are so big that the coarse one would
leave the window half empty.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache

from halfline.document.encoded_text import check_encodable
from halfline.text.tokenizer import Tokenizer

_MAX_TOKEN_CHARACTERS = 16
"""A token of code is 3 to 4 characters on average; more are never looked at per token."""

_LINE_GRIDS = (32, 8, 1)
_CHARACTER_GRIDS = (256, 64, 8, 1)  # within one endless line


class LineGrid:
    """Chooses windows for one tokenizer; remembers token counts of the cells it has seen."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        def count(text: str) -> int:
            return len(tokenizer.encode(text, continues=True))

        self._count: Callable[[str], int] = lru_cache(maxsize=4096)(count)

    def start(self, prefix: str, max_tokens: int) -> int:
        """Where in `prefix` the window begins: about `max_tokens` tokens, seldom one or two more.

        Takes time for `max_tokens` tokens, and one count of line ends for the rest. Raises UnencodableText.
        """
        floor = max(0, len(prefix) - max_tokens * _MAX_TOKEN_CHARACTERS)
        check_encodable(prefix[floor:], offset=floor)
        num_lines = prefix.count("\n")
        grids = [_line_starts(prefix, num_lines, grid, floor) for grid in _LINE_GRIDS]
        grids += [_multiples(len(prefix), grid, floor) for grid in _CHARACTER_GRIDS]
        for starts in grids:
            start, num_tokens = self._walk_back(prefix, starts, max_tokens)
            if start == 0 or 2 * num_tokens >= max_tokens:
                break
        return start

    def _walk_back(self, prefix: str, starts: Iterator[int], max_tokens: int) -> tuple[int, int]:
        """The earliest of `starts`, which come latest first, that leaves room; and the tokens from there on."""
        chosen, total = len(prefix), 0
        for start in starts:
            total_with_cell = total + self._count(prefix[start:chosen])
            if total_with_cell > max_tokens:
                break
            chosen, total = start, total_with_cell
        return chosen, total


def _line_starts(prefix: str, num_lines: int, grid: int, floor: int) -> Iterator[int]:
    """Starts of the lines whose number is a multiple of `grid`, latest first, none before `floor`."""
    line_number, end = num_lines, len(prefix)
    while end >= 0:
        start = prefix.rfind("\n", floor, end) + 1
        if start == 0 and floor > 0:
            return  # this line begins before the floor
        if line_number % grid == 0:
            yield start
        line_number -= 1
        end = start - 1


def _multiples(length: int, step: int, floor: int) -> Iterator[int]:
    """Multiples of `step` up to `length`, latest first, none before `floor`."""
    return iter(range(length - length % step, floor - 1, -step))
