"""Ends a completion where it runs into what already stands behind the cursor.

x = █ + y       the model writes   f(a) + y⏎…      the editor gets   f(a)
"""

from halfline.pipeline.postprocess.scanner import Scanner
from halfline.pipeline.postprocess.surroundings import Surroundings

_MAX_REST = 256  # characters; nobody writes more of a line from memory, and each is compared with each


class SuffixOverlap:
    """A text filter (sampling/reader.py) for the rest of the cursor's line.

    When the completion's first line ends with that rest, the rest is cut off and the completion ends: whatever
    followed would be written behind a line that is finished. Not where a bracket that the answer opened would lose its
    closer, as in foo(█) with the answer g(x). Blanks before it go too, where the rest begins with some. Text that may
    turn out to be that end is held back.
    """

    rule = "suffix_overlap"

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._rest = around.rest.strip()  # blank at a line's end: then nothing is ever cut
        self._rest_has_blanks = around.rest[:1].isspace()
        self._line = ""
        self._num_shown = 0  # of the line
        self._in_first_line = 0 < len(self._rest) <= _MAX_REST
        self.stopped = False

    def push(self, text: str) -> str:
        if not self._in_first_line:
            return text
        self._line, newline, behind = (self._line + text).partition("\n")
        if newline:
            self._in_first_line = False
            return self._cut() if self._overlaps() else self._line[self._num_shown :] + newline + behind
        return self._show(self._num_safe(self._line))

    def finish(self) -> str:
        if not self._in_first_line:
            return ""
        return self._cut() if self._overlaps() else self._show(self._num_ahead(self._line))

    def _show(self, stop: int) -> str:
        shown = self._line[self._num_shown : stop]
        self._num_shown = max(self._num_shown, stop)
        return shown

    def _overlaps(self) -> bool:
        line = self._line.rstrip()
        return line.endswith(self._rest) and self._is_balanced(line.removesuffix(self._rest))

    def _is_balanced(self, answer: str) -> bool:
        """Whether the answer leaves no more brackets open than were, or than the rest closes."""
        scanner = Scanner(self._around.language, self._around.inside).read(self._around.line)
        num_open = len(scanner.open)
        num_closed = Scanner(self._around.language, scanner.inside).num_closed(self._around.rest)
        return len(scanner.read(answer).open) <= max(num_open, num_closed)

    def _cut(self) -> str:
        self.stopped = True
        return self._show(self._num_ahead(self._line.rstrip().removesuffix(self._rest)))

    def _num_ahead(self, text: str) -> int:
        """Characters of it ahead of the rest, which may bring the blanks between them."""
        return len(text.rstrip() if self._rest_has_blanks else text)

    def _num_safe(self, text: str) -> int:
        """Characters that cannot belong to the overlap, whatever comes."""
        solid = text.rstrip()
        if solid.endswith(self._rest):
            return self._num_ahead(solid.removesuffix(self._rest))
        # Blanks may stand inside the rest, so a part of it is looked for with and without those at the end.
        start = text.find(self._rest[0], max(0, len(text) - len(self._rest) + 1))
        while start >= 0 and not self._rest.startswith(text[start:]):
            start = text.find(self._rest[0], start + 1)
        return self._num_ahead(text if start < 0 else text[:start])
