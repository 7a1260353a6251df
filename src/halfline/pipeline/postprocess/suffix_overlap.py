"""Ends a completion where it runs into what already stands behind the cursor.

foo(█)          the model writes   a, b)⏎…      the editor gets   a, b
"""


class SuffixOverlap:
    """A text filter (sampling/reader.py) for the rest of the cursor's line.

    When the completion's first line ends with that rest, the rest is cut off and the completion ends: whatever
    followed would be written behind a line that is finished. Text that may turn out to be that end is held back.
    """

    rule = "suffix_overlap"

    def __init__(self, rest_of_line: str) -> None:
        """`rest_of_line` is blank when the cursor stands at a line's end: then nothing is ever cut."""
        self._rest = rest_of_line.strip()
        self._held = ""
        self._in_first_line = bool(self._rest)
        self.stopped = False

    def push(self, text: str) -> str:
        if not self._in_first_line:
            return text
        text = self._held + text
        line, newline, _ = text.partition("\n")
        if newline:
            self._in_first_line = False
            self._held = ""
            return self._cut(line) if self._overlaps(line) else text
        shown = text[: self._num_safe(text)]
        self._held = text[len(shown) :]
        return shown

    def finish(self) -> str:
        held, self._held = self._held, ""
        return self._cut(held) if self._in_first_line and self._overlaps(held) else held

    def _overlaps(self, line: str) -> bool:
        return line.rstrip().endswith(self._rest)

    def _cut(self, line: str) -> str:
        self.stopped = True
        return line.rstrip().removesuffix(self._rest)

    def _num_safe(self, text: str) -> int:
        """Characters that cannot belong to the overlap, whatever comes."""
        solid = text.rstrip()
        if solid.endswith(self._rest):
            return len(solid) - len(self._rest)
        # Blanks may stand inside the rest, so a part of it is looked for with and without those at the end.
        for length in range(min(len(self._rest) - 1, len(text)), 0, -1):
            if self._rest.startswith(text[len(text) - length :]):
                return len(text) - length
        return len(text)
