"""Ends an answer before it closes a bracket or a string that is closed behind the cursor already.

foo(█)          the model writes   a, g(b));⏎…      the editor gets   a, g(b)
"""

from functools import cached_property

from halfline.pipeline.postprocess.closing import is_closed_behind, num_open_above
from halfline.pipeline.postprocess.scanner import CLOSERS, Scanner
from halfline.pipeline.postprocess.surroundings import Surroundings


class Brackets:
    """A text filter (sampling/reader.py). A closer that begins a line is the scope's affair (scope.py).

    In the cursor's line a bracket closed too often may be opened again, as in `expect(█);` and `a).toBe(b`, so from
    the first such closer on everything is held back to the line's end.
    """

    rule = "brackets"

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._scanner = Scanner(around.language, around.inside).read(around.line)
        string = self._scanner.inside if self._scanner.inside != "\n" else None
        self._in_first_string = string is not None and _ends_string(around, string)
        self._num_floor = len(self._scanner.open)  # brackets of the cursor's line that are open yet
        self._num_excess = 0
        self._num_rest = Scanner(around.language, self._scanner.inside).num_closed(around.rest)
        self._in_first_line = True
        self._on_blanks = around.on_blank_line  # whether nothing else has come in the line
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        if not self._held and not self._in_first_string and not self._scanner.tells(text):
            self._scanner.read(text)
            self._on_blanks = self._on_blanks and text.isspace()
            return text
        shown = ""
        for character in text:
            shown += self._take(character)
            if self.stopped:
                break
        return shown

    def finish(self) -> str:
        held, self._held = self._held, ""
        self.stopped = bool(held) and not self._is_balanced
        return "" if self.stopped else held

    def _take(self, character: str) -> str:
        if character == "\n" and self._in_first_line:
            held = self.finish()
            self._in_first_line = False
            self._on_blanks = True
            self._scanner.push(character)
            return "" if self.stopped else held + character
        was_in_code = self._scanner.in_code
        excess = self._scanner.push(character)
        if self._in_first_string and self._scanner.in_code:
            self.stopped = True
            return ""
        begins_line = self._on_blanks
        self._on_blanks = character == "\n" or (begins_line and character.isspace())
        if was_in_code and character in CLOSERS and self._closes_twice(character, excess, begins_line):
            self.stopped = not (self._in_first_line and self._num_rest)
            self._held += character
            return ""
        if self._held:
            self._held += character
            return ""
        return character

    def _closes_twice(self, closer: str, excess: bool, begins_line: bool) -> bool:
        num_open = len(self._scanner.open)
        if not excess and num_open >= self._num_floor:
            return False  # the answer opened it
        self._num_excess += excess
        in_own_line = self._num_floor > 0
        self._num_floor = min(self._num_floor, num_open)
        if self._num_rest:
            return not self._is_balanced
        return not begins_line and is_closed_behind(self._around, closer, in_own_line)

    @property
    def _is_balanced(self) -> bool:
        """Whether as many brackets are open as are closed in the rest of the line."""
        num_due = self._num_rest + self._num_excess - len(self._scanner.open)
        return num_due <= 0 or num_due <= self._num_above

    @cached_property
    def _num_above(self) -> int:
        return num_open_above(self._around)


def _ends_string(around: Surroundings, quote: str) -> bool:
    """Whether the rest of the line begins with the end of the string in which the cursor stands. Not of a raw one,
    r#"█"#, which may hold quotes.
    """
    behind = Scanner(around.language, around.inside).read(around.line).read(around.rest)
    is_end = around.rest.startswith(quote) and not around.rest.startswith(quote + "#")
    return is_end and behind.in_code
