"""Ends an answer before the lines that already stand below the cursor."""

from itertools import islice

from halfline.pipeline.postprocess.surroundings import Surroundings

_NUM_COMPARED = 4
_MIN_LETTERS = 8


class FollowingLines:
    """A text filter (sampling/reader.py). Lines that are not blank are compared whole, with their indentation, one by
    one from the first below the cursor on. Such as many blocks share (a lone closer, `else:`) decide nothing by
    themselves. Holds text back as long as it goes on like what is below.
    """

    rule = "following_lines"

    def __init__(self, around: Surroundings) -> None:
        self._lines = [line.rstrip() for line in islice(around.lines_below(), _NUM_COMPARED)]
        if not any(map(_is_distinctive, self._lines)):
            self._lines = []
        self._num_same = 0  # of those, in a row, that the answer has repeated
        # What has come of the current line, in the document's terms; None: it is another one for sure.
        self._line: str | None = around.line if around.on_blank_line and not around.rest.strip() else None
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        if not self._lines:
            return text
        shown = ""
        while text and not self.stopped:
            line, newline, text = text.partition("\n")
            shown += self._take(line + newline)
        return shown

    def finish(self) -> str:
        if self._line is not None and self._line.strip():
            self._end_line(self._line)
        held, self._held = self._held, ""
        return "" if self.stopped else held

    def _take(self, text: str) -> str:
        """At most a line."""
        self._held += text
        ends = text.endswith("\n")
        if self._line is not None:
            self._line += text.removesuffix("\n")
            if not self._may_become_the_next(self._line):
                self._line = None
                self._num_same = 0
        line = self._line
        if ends:
            self._line = ""
            if line is not None and line.strip():
                self._end_line(line)
        held_back = self.stopped or (line is not None and (self._num_same > 0 or not ends))
        return "" if held_back else self._release()

    def _end_line(self, line: str) -> None:
        if line.rstrip() != self._lines[self._num_same]:
            self._num_same = 0
            return
        self.stopped = _is_distinctive(self._lines[self._num_same])
        self._num_same = (self._num_same + 1) % len(self._lines)

    def _may_become_the_next(self, line: str) -> bool:
        following = self._lines[self._num_same]
        return following.startswith(line) or following == line.rstrip() or not line.strip()

    def _release(self) -> str:
        held, self._held = self._held, ""
        return held


def _is_distinctive(line: str) -> bool:
    return sum(map(str.isalnum, line)) >= _MIN_LETTERS and len(line.split()) > 1
