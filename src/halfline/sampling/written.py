"""Text on its way out, rewritten character by character, and where each place of it went."""

from collections.abc import Sequence
from typing import Protocol


class TextRewrite(Protocol):
    """Changes characters on their way out, perhaps later, and cuts nothing off."""

    def passes(self, text: str) -> bool:
        """Whether `push` would return just this text."""

    def push(self, text: str) -> str: ...
    def finish(self) -> str: ...


class Written:
    """Runs text through rewrites, one behind the other. Without any, everything stays as and where it is."""

    def __init__(self, rewrites: Sequence[TextRewrite]) -> None:
        self._rewrites = tuple(rewrites)
        self._num_written = 0
        self._holds = False
        self._places: list[
            int
        ] = []  # of each character read, where it was written, or will be at the earliest

    def push(self, text: str) -> str:
        if not self._rewrites or not text:
            return text
        if all(each.passes(text) for each in self._rewrites):
            self._places.extend(range(self._num_written, self._num_written + len(text)))
            return self._rewritten(text)
        return "".join(map(self._push_one, text))

    def finish(self) -> str:
        """What the rewrites still hold; called once, last."""
        rest = ""
        for each in self._rewrites:
            rest = each.push(rest) + each.finish()
        self._num_written += len(rest)
        return rest

    def place(self, place: int) -> int:
        """Where the text read from `place` on begins in what is written; at most what was read may be asked for."""
        if not self._rewrites:
            return place
        return self._places[place] if place < len(self._places) else self._num_written

    def _push_one(self, character: str) -> str:
        before = self._num_written
        text = self._rewritten(character)
        # What was held comes out first.
        self._places.append(before + len(text) - 1 if self._holds and text else before)
        self._holds = not text
        return text

    def _rewritten(self, text: str) -> str:
        for each in self._rewrites:
            text = each.push(text)
        self._num_written += len(text)
        return text
