"""Turns one sequence's sampled tokens into the text that may be shown."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from halfline.sampling.sampler import Scored


class Detokenizer(Protocol):
    """Tokens to text, one at a time; a character split over tokens comes when it is whole."""

    def push(self, token_id: int) -> str: ...
    def finish(self) -> str: ...


class TextFilter(Protocol):
    """Passes text on, perhaps later, and may cut it short for good. It never changes a character."""

    @property
    def stopped(self) -> bool:
        """The text is cut: all that may be shown has been passed on, `finish` is no longer called."""

    def push(self, text: str) -> str: ...
    def finish(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that may be shown now, the tokens whose text has been shown in full by it, and where the text of each
    starts, in characters from the first token's on.
    """

    text: str = ""
    tokens: tuple[Scored, ...] = ()
    starts: tuple[int, ...] = ()

    def __add__(self, other: "Piece") -> "Piece":
        return Piece(self.text + other.text, self.tokens + other.tokens, self.starts + other.starts)


NOTHING = Piece()


class Reader:
    """Feeds tokens through a detokenizer and text filters; holds tokens back as long as their text.

    text      d e f   f o o ( ) : ⏎ ⏎ c l
              └ shown ───────────┘└ held ┘     a filter waits: is this "\\n\\nclass"?
    tokens    [def][ foo]["():"]  [⏎⏎][cl]     the last two are held too
    """

    def __init__(self, detokenizer: Detokenizer, filters: Sequence[TextFilter] = ()) -> None:
        self._detokenizer = detokenizer
        self._filters = tuple(filters)
        self._held: deque[tuple[Scored, int, int]] = deque()  # token, [start, stop) of its text
        self._num_read = 0
        self._num_shown = 0
        self.stopped = False

    def push(self, token: Scored) -> Piece:
        """Take the next token. When this sets `stopped`, the piece is the last one."""
        text = self._detokenizer.push(token.token_id)
        self._held.append((token, self._num_read, self._num_read + len(text)))
        self._num_read += len(text)
        return self._show(self._filter(text, last=False))

    def finish(self) -> Piece:
        """The rest, when generation ended without `stopped`."""
        text = self._detokenizer.finish()
        self._num_read += len(text)
        return self._show(self._filter(text, last=True))

    def _filter(self, text: str, last: bool) -> str:
        """What comes out behind all filters. Where one stops, the text ends for those behind it."""
        for each in self._filters:
            text = each.push(text)
            if last and not each.stopped:
                text += each.finish()
            if each.stopped:
                self.stopped = last = True
        return text

    def _show(self, text: str) -> Piece:
        """Release the tokens whose text is shown by now; after a cut, also the one it runs through."""
        self._num_shown += len(text)
        shown: list[Scored] = []
        starts: list[int] = []
        while self._held:
            token, start, stop = self._held[0]
            if not (stop <= self._num_shown or (self.stopped and start < self._num_shown)):
                break
            shown.append(token)
            starts.append(start)
            self._held.popleft()
        return Piece(text, tuple(shown), tuple(starts))
