"""Ends an answer before the lines that already stand below the cursor."""

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
        self._lines = [line.rstrip() for line in around.lines_below()[:_NUM_COMPARED]]
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
        for character in text:
            shown += self._take(character)
            if self.stopped:
                break
        return shown

    def finish(self) -> str:
        if self._line is not None and self._line.strip():
            self._end_line(self._line)
        held, self._held = self._held, ""
        return "" if self.stopped else held

    def _take(self, character: str) -> str:
        self._held += character
        if character != "\n":
            if self._line is None:
                return self._release()
            self._line += character
            if self._may_become_the_next():
                return ""
            self._line = None
            self._num_same = 0
            return self._release()
        line, self._line = self._line, ""
        if line is None:
            return self._release()
        if line.strip():
            self._end_line(line)
        return "" if self.stopped or self._num_same else self._release()

    def _end_line(self, line: str) -> None:
        if line.rstrip() != self._lines[self._num_same]:
            self._num_same = 0
            return
        self.stopped = _is_distinctive(self._lines[self._num_same])
        self._num_same = (self._num_same + 1) % len(self._lines)

    def _may_become_the_next(self) -> bool:
        assert self._line is not None
        following = self._lines[self._num_same]
        return following.startswith(self._line) or following == self._line.rstrip()

    def _release(self) -> str:
        held, self._held = self._held, ""
        return held


def _is_distinctive(line: str) -> bool:
    return sum(map(str.isalnum, line)) >= _MIN_LETTERS and len(line.split()) > 1
