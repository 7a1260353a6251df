"""Ends an answer in which the model goes round in circles: the same few lines, or characters, again and again."""

_MAX_LINES = 4  # of a repeated block
_MIN_TIMES = 3
_MAX_PERIOD = 32  # characters
_MIN_CHARACTERS = 96
_MIN_PERIODS = 6


class Repetition:
    """A text filter (sampling/reader.py). Holds back what repeats one of the lines before until it is clear whether it
    goes on so. `line` is what stands before the cursor in its line.
    """

    rule = "repetition"

    def __init__(self, line: str) -> None:
        self._lines: list[str] = []
        self._line = line
        self._line_runs = [0] * (
            _MAX_LINES + 1
        )  # by distance, how many lines in a row are those so far above
        self._text = ""  # the last characters
        self._runs = [0] * (
            _MAX_PERIOD + 1
        )  # by distance, how many characters in a row are those so far before
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        shown = ""
        for character in text:
            shown += self._take(character)
            if self.stopped:
                break
        return shown

    def finish(self) -> str:
        """What is held is shown if it was no circle yet."""
        if self._line.strip():
            self._end_line()
        held, self._held = self._held, ""
        return "" if self.stopped else held

    def _take(self, character: str) -> str:
        self._held += character
        if self._circles(character):
            self.stopped = True
            return ""
        if character != "\n":
            self._line += character
            return "" if self._repeats() else self._release()
        self._end_line()
        return "" if self.stopped or max(self._line_runs) else self._release()

    def _repeats(self) -> bool:
        """Whether the line, as far as it has come, is one of those before."""
        return any(line.startswith(self._line) for line in self._lines)

    def _end_line(self) -> None:
        line, self._line = self._line, ""
        for distance in range(1, _MAX_LINES + 1):
            same = len(self._lines) >= distance and self._lines[-distance] == line and bool(line.strip())
            self._line_runs[distance] = self._line_runs[distance] + 1 if same else 0
            enough = self._line_runs[distance] >= (_MIN_TIMES - 1) * distance
            self.stopped |= enough and self._says_something(distance)
        self._lines = [*self._lines[1 - _MAX_LINES :], line]

    def _says_something(self, num_lines: int) -> bool:
        """Closing three blocks takes three lines alike, and so do three empty rows."""
        return any(sum(map(str.isalnum, line)) >= 4 for line in self._lines[-num_lines:])

    def _circles(self, character: str) -> bool:
        self._text = self._text[-_MAX_PERIOD:] + character
        circles = False
        for distance in range(1, min(_MAX_PERIOD, len(self._text) - 1) + 1):
            if self._text[-1 - distance] != character:
                self._runs[distance] = 0
                continue
            self._runs[distance] += 1
            circles |= self._runs[distance] >= max(_MIN_CHARACTERS, _MIN_PERIODS * distance)
        return circles

    def _release(self) -> str:
        held, self._held = self._held, ""
        return held
