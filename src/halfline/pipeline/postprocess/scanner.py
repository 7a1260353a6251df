"""Reads code one character at a time and knows which brackets are open, and whether it stands in a string or a comment.

An approximation by design: no regular expressions, heredocs or nested comments. Whoever cuts by it has to be careful
where it may be wrong, which is measured (`halfline quality cuts`).
"""

from halfline.pipeline.postprocess.languages import Language

CLOSER_OF = {"(": ")", "[": "]", "{": "}"}
CLOSERS = frozenset(CLOSER_OF.values())


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
        self._last = ""  # the last character of the line that is not blank

    def read(self, text: str) -> "Scanner":
        for character in text:
            self.push(character)
        return self

    def num_closed(self, text: str) -> int:
        """How many closers in the text are for something that was not opened in it, or before."""
        return sum(self.push(character) for character in text)

    @property
    def in_code(self) -> bool:
        return self.inside is None

    def push(self, character: str) -> bool:
        """Whether the character closes a bracket that was open before the first character."""
        before, self._tail = self._tail, (self._tail + character)[-3:]
        last = self._last
        if character == "\n":
            self._last = ""
        elif not character.isspace():
            self._last = character
        if self.inside is not None:
            self._push_inside(character, self.inside)
            return False
        if self._language.plain_text and not self.open and last and last not in ":-[{,":
            self.inside = "\n" if character == "#" and before[-1:].isspace() else None
            return False
        if self._begins(character, before):
            self._num_inside = 0
            self._escaped = False
            return False
        if not self._language.brackets or before.endswith("'"):  # a bracket as a character: '('
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
        """An apostrophe within a word is none of a string (1'000, don't), nor is a quote that is a character ('"')."""
        last = before[-1:]
        return last != "'" if quote == '"' else not (quote == "'" and last.isdigit())
