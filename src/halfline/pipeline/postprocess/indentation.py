"""Indents new lines as the document does: tabs stay tabs, spaces stay spaces."""

from functools import cached_property

from halfline.pipeline.postprocess.scanner import Scanner
from halfline.pipeline.postprocess.surroundings import TAB_WIDTH, Surroundings, level


class Indentation:
    """A text rewrite (sampling/written.py) of what a line begins with: in a document of tabs every four spaces become
    one, in one of spaces a tab becomes one level. Lines within strings and comments stay as they are.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._scanner = Scanner(around.language, around.inside).read(around.line)
        self._held = ""
        # On a blank line only blanks of the document's own kind or none stand before the cursor.
        self._at_start = around.on_blank_line and self._scanner.in_code

    def passes(self, text: str) -> bool:
        return not self._at_start and "\n" not in text

    def push(self, text: str) -> str:
        if self.passes(text):
            self._scanner.read(text)
            return text
        return "".join(map(self._take, text))

    def finish(self) -> str:
        return self._release()

    def _take(self, character: str) -> str:
        if self._at_start and character in " \t":
            self._held += character
            return ""
        self._scanner.push(character)
        self._at_start = character == "\n" and self._scanner.in_code
        return self._release() + character

    def _release(self) -> str:
        held, self._held = self._held, ""
        if not held or self._level is None:
            return held
        if self._level != "\t":
            return held.replace("\t", self._level)
        # Spaces behind a tab align something.
        spaces = len(held) - len(held.lstrip(" "))
        return "\t" * (spaces // TAB_WIDTH) + " " * (spaces % TAB_WIDTH) + held[spaces:]

    @cached_property
    def _level(self) -> str | None:
        return level(self._around)
