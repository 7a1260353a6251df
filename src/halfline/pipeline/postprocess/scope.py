"""Ends an answer where it leaves the statement or the block that the cursor stands in.

    def f(x):
        if x:█            the answer   ⏎        return 1⏎    return 2⏎⏎def g…
                          is cut here                   │

The limit is an indentation: a line at or left of it begins something else. Not in brackets and strings that the answer
or the cursor's line opened, and not a line that belongs to the statement although it is not indented: `else`, `{`, the
closer of a block that nothing behind the cursor closes, what stands behind a decorator or a comment, `case`.
"""

from halfline.pipeline.postprocess.closing import is_missing, is_next
from halfline.pipeline.postprocess.extent import Extent
from halfline.pipeline.postprocess.scanner import CLOSERS, Scanner
from halfline.pipeline.postprocess.surroundings import Surroundings, width

_MAX_HEAD = 16  # characters, more than any head or comment begins with


class Scope:
    """A text filter (sampling/reader.py) for an answer of several lines. Holds back at most a word: is it `else`?"""

    rule = "scope"

    def __init__(self, around: Surroundings, extent: Extent) -> None:
        self._around = around
        self._language = around.language
        self._extent = extent
        self._scanner = Scanner(around.language, around.inside).read(around.line)
        self._num_floor = len(self._scanner.open)  # brackets of the cursor's line that are open yet
        # The blanks of a line of which nothing else has come; None in the midst of one.
        self._blanks: str | None = around.line if around.on_blank_line else None
        self._begun = not around.on_blank_line
        self._limit = extent.indent
        self._comments = (*self._language.comments, *(self._language.block_comment or ())[:1])
        # How the line begins that the statement began with; nothing of a comment that the cursor stands in.
        self._head = "" if around.line.lstrip().startswith(self._comments) else around.line.strip()
        self._in_head = False
        self._last = around.line.rstrip()[-1:]  # the last character that is not blank
        self._written = False  # whether the answer is more than blanks
        self._word: str | None = None  # held back
        self.stopped = False

    def push(self, text: str) -> str:
        if self._blanks is None and self._word is None and "\n" not in text:
            return self._pass_on(text)
        shown = ""
        for character in text:
            shown += self._take(character)
            if self.stopped:
                break
        return shown

    def finish(self) -> str:
        """A word that the text ended in is shown if it is whole."""
        return self._word if self._word in self._goes_on else ""

    def _pass_on(self, text: str) -> str:
        """In the midst of a line nothing is decided."""
        self._scanner.read(text)
        solid = text.rstrip()
        if solid:
            self._last = solid[-1]
            self._written = True
        if self._in_head and len(self._head) < _MAX_HEAD:
            self._head += text
        return text

    def _take(self, character: str) -> str:
        if self._word is not None:
            return self._take_of_word(character, self._word)
        if self._blanks is not None and not character.isspace():
            self._judge(character, width(self._blanks))
            if self.stopped:
                return ""
            if self._word is not None:
                self._scanner.push(character)
                return ""
        return self._pass(character)

    def _pass(self, character: str) -> str:
        self._scanner.push(character)
        if character == "\n":
            if self._blanks is not None and self._written:
                self._head = ""  # behind an empty line something else begins
            self._blanks = ""
            self._in_head = False
        elif self._blanks is not None:
            self._blanks = self._blanks + character if character.isspace() else None
        if self._in_head and len(self._head) < _MAX_HEAD:
            self._head += character
        if not character.isspace():
            self._last = character
            self._written = True
        return character

    def _take_of_word(self, character: str, word: str) -> str:
        if character.isalnum() or character == "_":
            self._word = word + character
            self._scanner.push(character)
            self.stopped = not any(each.startswith(self._word) for each in self._goes_on)
            return ""
        if word not in self._goes_on:
            self.stopped = True
            return ""
        self._word = None
        self._blanks = None
        return word + self._pass(character)

    def _judge(self, character: str, column: int) -> None:
        """Whether the line that begins with the character, in that column, is still part of the answer."""
        self._num_floor = min(self._num_floor, len(self._scanner.open))
        if len(self._scanner.open) > self._num_floor or not self._scanner.in_code:
            self._begun = True
            return
        if not self._begun:
            self._begin(character, column)
        elif not self._written and column == self._limit and not self._lists(character):
            self._begin_head()  # the cursor's line was complete: this is the next one
        elif column <= self._limit and not self._belongs(character, column):
            if column == self._limit and any(each.startswith(character) for each in self._goes_on):
                self._word = character
            else:
                self.stopped = True

    def _begin(self, character: str, column: int) -> None:
        """The first line of an answer on a blank line sets the limit."""
        self._begun = True
        self._begin_head()
        block = self._extent.goes_to_end_of == "block"
        self._limit = column - 1 if block else column
        if character in CLOSERS:
            self._limit = column
            self.stopped = is_next(self._around, character, column)

    def _belongs(self, character: str, column: int) -> bool:
        """Of a line at or left of the limit."""
        language = self._language
        if character in CLOSERS:
            self._limit = column
            return is_missing(self._around, character, column)
        if character in ("{", language.directive):
            return True
        if language.ends_with is not None:
            return self._last != language.ends_with
        if column != self._limit:
            return False
        if self._head.startswith((*language.heads, *self._comments)):
            self._begin_head()
            return True
        return self._lists(character)

    def _lists(self, character: str) -> bool:
        """Whether it begins one of the entries that stand in the column of their key."""
        return character == self._language.list_item and not self._head.startswith(character)

    @property
    def _goes_on(self) -> tuple[str, ...]:
        """Words that a line of the statement may begin with. `case` may stand where the switch that it is in does."""
        in_own_brackets = self._num_floor > 0 and not self._around.rest.strip()
        return self._language.goes_on + (self._language.labels if in_own_brackets else ())

    def _begin_head(self) -> None:
        """With the character that is judged."""
        self._head = ""
        self._in_head = True
