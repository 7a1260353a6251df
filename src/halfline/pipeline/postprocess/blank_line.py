"""Ends an answer at the blank line behind which something else begins: a second blank line, or one before column 0."""

from halfline.pipeline.postprocess.scanner import Scanner
from halfline.pipeline.postprocess.surroundings import Surroundings


class BlankLine:
    """A text filter (sampling/reader.py). Blank lines in brackets and strings do not count, nor such before the first
    line of an answer on a blank line.
    """

    rule = "blank_line"

    def __init__(self, around: Surroundings) -> None:
        self._scanner = Scanner(around.language, around.inside).read(around.line)
        self._begun = not around.on_blank_line
        self._num_newlines = 0  # since the last character that was not blank
        self._held = ""  # from the first blank line on
        self.stopped = False

    def push(self, text: str) -> str:
        if self._begun and self._num_newlines == 0 and "\n" not in text:
            self._scanner.read(text)
            return text
        shown = ""
        for character in text:
            shown += self._take(character)
            if self.stopped:
                break
        return shown

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held

    def _take(self, character: str) -> str:
        self._scanner.push(character)
        if not self._begun or self._scanner.open or not self._scanner.in_code:
            self._begun = self._begun or not character.isspace()
            self._num_newlines = 0
            return self._release() + character
        if character == "\n":
            self._num_newlines += 1
            self.stopped = self._num_newlines > 2
        elif not character.isspace():
            self.stopped = self._num_newlines == 2 and self._held.endswith("\n")
            self._num_newlines = 0
            return "" if self.stopped else self._release() + character
        if self._num_newlines < 2:
            return character
        self._held += character
        return ""

    def _release(self) -> str:
        held, self._held = self._held, ""
        return held
