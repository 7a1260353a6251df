"""Ends an answer in which the model goes round in circles: the same few lines, or characters, again and again."""

_MAX_LINES = 4  # of a repeated block
_MIN_TIMES = 3
_MAX_PERIOD = 32  # characters
_STRIDE = 32  # characters between two looks at the last _WATCHED of them
_WATCHED = 6 * _MAX_PERIOD


class Repetition:
    """A text filter (sampling/reader.py). Holds back what repeats one of the lines before until it is clear whether it
    goes on so. `line` is what stands before the cursor in its line.
    """

    rule = "repetition"

    def __init__(self, line: str) -> None:
        self._lines: list[str] = []
        self._line = line
        self._runs = [0] * (_MAX_LINES + 1)  # by distance, how many lines in a row are those so far above
        self._text = ""  # the last characters of the answer
        self._num_read = 0
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        shown = ""
        while text and not self.stopped:
            # As far as the line goes, and to the next look: where that is does not depend on how the text is cut.
            stop = min(len(text), _STRIDE - self._num_read % _STRIDE)
            newline = text.find("\n", 0, stop)
            if newline >= 0:
                stop = newline + 1
            shown += self._take(text[:stop])
            text = text[stop:]
        return shown

    def finish(self) -> str:
        """What is held is shown if it was no circle yet."""
        if self._line.strip():
            self._end_line()
        held, self._held = self._held, ""
        return "" if self.stopped else held

    def _take(self, text: str) -> str:
        """At most a line."""
        self._held += text
        self._text = (self._text + text)[-_WATCHED:]
        self._num_read += len(text)
        if self._num_read % _STRIDE == 0 and self._circles():
            self.stopped = True
            return self._release()
        if not text.endswith("\n"):
            self._line += text
            return "" if self._repeats() else self._release()
        self._line += text[:-1]
        self._end_line()
        return "" if self.stopped or max(self._runs) else self._release()

    def _repeats(self) -> bool:
        """Whether the line, as far as it has come, is one of those before."""
        return any(line.startswith(self._line) for line in self._lines)

    def _end_line(self) -> None:
        line, self._line = self._line, ""
        for distance in range(1, _MAX_LINES + 1):
            same = len(self._lines) >= distance and self._lines[-distance] == line and bool(line.strip())
            self._runs[distance] = self._runs[distance] + 1 if same else 0
            enough = self._runs[distance] >= (_MIN_TIMES - 1) * distance
            self.stopped |= enough and self._says_something(distance)
        self._lines = [*self._lines[1 - _MAX_LINES :], line]

    def _says_something(self, num_lines: int) -> bool:
        """Closing three blocks takes three lines alike, and so do three empty rows."""
        return any(sum(map(str.isalnum, line)) >= 4 for line in self._lines[-num_lines:])

    def _circles(self) -> bool:
        text = self._text
        return len(text) == _WATCHED and any(
            text.startswith(text[period:]) for period in range(1, _MAX_PERIOD + 1)
        )

    def _release(self) -> str:
        held, self._held = self._held, ""
        return held
