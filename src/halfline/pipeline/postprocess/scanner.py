"""Reads code one character at a time and knows which brackets are open, and whether it stands in a string or a comment.

An approximation by design: no regular expressions, heredocs or nested comments. Whoever cuts by it has to be careful
where it may be wrong, which is measured (`halfline quality cuts`).
"""

import re
from functools import lru_cache

from halfline.pipeline.postprocess.languages import Language

CLOSER_OF = {"(": ")", "[": "]", "{": "}"}
CLOSERS = frozenset(CLOSER_OF.values())

_MAX_SINGLE = 10  # of a character between apostrophes: \\u{10ffff}


class Scanner:
    """`inside` is what ends the string or comment it stands in, None in code; `open` the closers that are due, the next
    one last.
    """

    def __init__(self, language: Language, inside: str | None = None) -> None:
        self._language = language
        self.inside = inside
        self.open: list[str] = []
        self._tail = ""  # the last characters, as many as a delimiter has
        self._num_inside = 3  # characters since the string or comment began
        self._escaped = False
        self._has_characters = "'" not in (*language.quotes, *language.long_quotes)
        self._single: str | None = None  # what stands behind an apostrophe that may begin a character: '('
        self._last = ""  # the last character of the line that is not blank; of plain text only
        self._telling = _telling(language)
        self._beginning = _beginning(language)

    def read(self, text: str) -> "Scanner":
        """The same as pushing each character, and a few times as fast."""
        self.num_closed(text)
        return self

    def num_closed(self, text: str) -> int:
        """Reads on; how many closers in the text are for something that was not opened in it, or before."""
        if self._language.plain_text:  # where every character counts
            return sum(map(self.push, text))
        count = start = 0
        for found in self._telling.finditer(text):
            self._skip(text[start : found.start()])
            count += self.push(found[0])
            start = found.end()
        self._skip(text[start:])
        return count

    def tells(self, text: str) -> bool:
        """Whether something in the text may open or close anything."""
        return self._language.plain_text or self._telling.search(text) is not None

    def _skip(self, text: str) -> None:
        """Characters none of which tells anything."""
        if text:
            self._tail = (self._tail + text)[-3:]
            self._num_inside += len(text)
            self._escaped = False
            self._single = _longer(self._single, text)

    @property
    def in_code(self) -> bool:
        return self.inside is None

    def push(self, character: str) -> bool:
        """Whether the character closes a bracket that was open before the first character."""
        before, self._tail = self._tail, (self._tail + character)[-3:]
        if self.inside is not None:
            self._push_inside(character, self.inside)
            return False
        if self._language.plain_text and self._in_plain_text(character, before):
            return False
        if self._has_characters and self._is_character(character, before):
            return False
        if character in self._beginning and self._begins(character, before):
            self._num_inside = 0
            self._escaped = False
            return False
        if not self._language.brackets:
            return False
        if character in CLOSER_OF:
            self.open.append(CLOSER_OF[character])
        elif character in CLOSERS:
            if not self.open:
                return True
            if character in self.open:  # what stands between was never closed
                while self.open.pop() != character:
                    pass
        return False

    def _is_character(self, character: str, before: str) -> bool:
        """Whether it is one between apostrophes, as '(' and '"' are; behind that of a lifetime no bracket stands."""
        single = self._single
        if character != "'" or single == "\\":
            self._single = _longer(single, character)
            return single == ""
        ends = single is not None and (len(single) == 1 or single.startswith("\\"))
        in_word = before[-1:].isalnum() and not (before.endswith("b") and not before[-2:-1].isalnum())
        self._single = None if ends or in_word else ""
        return False

    def _in_plain_text(self, character: str, before: str) -> bool:
        """Whether the character goes on with a value that no quote or bracket began."""
        last = self._last
        if character == "\n":
            self._last = ""
        elif not character.isspace():
            self._last = character
        if self.open or not last or last in ":-[{,":
            return False
        if character == "#" and before[-1:].isspace():
            self.inside = "\n"
        return True

    def _push_inside(self, character: str, end: str) -> None:
        self._num_inside += 1
        if end == "\n":
            if character == "\n":
                self.inside = None
        elif self._escaped:
            self._escaped = False
        elif character == "\\" and self._language.escapes and end != "*/":
            self._escaped = True
        elif (character == "\n" and len(end) == 1 and end not in self._language.long_quotes) or (
            self._tail.endswith(end) and self._num_inside >= len(end)
        ):
            self.inside = None

    def _begins(self, character: str, before: str) -> bool:
        """Whether a string or a comment begins with the character, which is then complete in the tail."""
        language, tail = self._language, self._tail
        block = language.block_comment
        if any(tail.endswith(mark) for mark in language.comments):
            self.inside = "\n"
        elif block is not None and tail.endswith(block[0]):
            self.inside = block[1]
        elif any(len(quote) == 3 and tail == quote for quote in language.long_quotes):
            self.inside = tail
        elif (character in language.quotes or character in language.long_quotes) and self._counts(
            character, before
        ):
            self.inside = character
        return self.inside is not None

    def _counts(self, quote: str, before: str) -> bool:
        """An apostrophe between digits is none of a string (1'000)."""
        return quote != "'" or not before[-1:].isdigit()


def _longer(single: str | None, text: str) -> str | None:
    """None: that is more than any character takes."""
    return None if single is None or len(single) + len(text) > _MAX_SINGLE else single + text


@lru_cache(maxsize=64)
def _beginning(language: Language) -> frozenset[str]:
    """Last characters of what begins a string or a comment."""
    marks = [*language.quotes, *language.long_quotes, *language.comments, *(language.block_comment or ())[:1]]
    return frozenset(mark[-1] for mark in marks)


@lru_cache(maxsize=64)
def _telling(language: Language) -> re.Pattern[str]:
    """A character by which anything may begin or end."""
    delimiters = [*language.long_quotes, *language.comments, *(language.block_comment or ())]
    characters = {*language.quotes, *"".join(delimiters), *"()[]{}\n\\'"}
    return re.compile("[" + re.escape("".join(sorted(characters))) + "]")
