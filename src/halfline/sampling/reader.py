"""Turns one sequence's sampled tokens into the text that may be shown."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from halfline.sampling.sampler import Scored
from halfline.sampling.written import TextRewrite, Written


class Detokenizer(Protocol):
    """Tokens to text, one at a time; a character split over tokens comes when it is whole."""

    def push(self, token_id: int) -> str: ...
    def finish(self) -> str: ...


class TextFilter(Protocol):
    """Passes text on, perhaps later, and may cut it short for good. It never changes a character."""

    @property
    def rule(self) -> str:
        """What a receipt calls it."""

    @property
    def stopped(self) -> bool:
        """The text is cut: all that may be shown has been passed on, `finish` is no longer called."""

    def push(self, text: str) -> str: ...
    def finish(self) -> str: ...


class TokenJudge(TextFilter, Protocol):
    """A filter, the last one, that decides by the tokens themselves."""

    def see(self, token: Scored) -> None:
        """Called before the token's text is pushed."""

    @property
    def confidence(self) -> float | None:
        """The probability that it judged by; None when there was no token to judge."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What one filter kept back for good, in characters, of those that had been generated."""

    rule: str
    num_characters: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that may be shown now, the tokens whose text has been shown in full by it, and where the text of each
    starts, in characters from the first token's on.

    The last piece also says what was cut, by which rule the text was ended, None: by none, and how sure the model was
    if that was looked at.
    """

    text: str = ""
    tokens: tuple[Scored, ...] = ()
    starts: tuple[int, ...] = ()
    cuts: tuple[Cut, ...] = ()
    confidence: float | None = None
    ended_by: str | None = None

    def __add__(self, other: "Piece") -> "Piece":
        return Piece(
            self.text + other.text,
            self.tokens + other.tokens,
            self.starts + other.starts,
            self.cuts + other.cuts,
            self.confidence if other.confidence is None else other.confidence,
            self.ended_by if other.ended_by is None else other.ended_by,
        )


NOTHING = Piece()


def joined(pieces: Sequence[Piece]) -> Piece:
    """One that says what all of them say in turn."""
    return Piece(
        "".join(piece.text for piece in pieces),
        tuple(token for piece in pieces for token in piece.tokens),
        tuple(start for piece in pieces for start in piece.starts),
        tuple(cut for piece in pieces for cut in piece.cuts),
        next((piece.confidence for piece in reversed(pieces) if piece.confidence is not None), None),
        next((piece.ended_by for piece in reversed(pieces) if piece.ended_by is not None), None),
    )


class Reader:
    """Feeds tokens through a detokenizer and text filters; holds tokens back as long as their text. A `forced_text`,
    with which their text begins, is no part of what is read: neither filters nor pieces see it.

    text      d e f   f o o ( ) : ⏎ ⏎ c l
              └ shown ───────────┘└ held ┘     a filter waits: is this "\\n\\nclass"?
    tokens    [def][ foo]["():"]  [⏎⏎][cl]     the last two are held too

    What the filters let through is then written in the document's own way by the `rewrites`.
    """

    def __init__(
        self,
        detokenizer: Detokenizer,
        filters: Sequence[TextFilter] = (),
        judge: TokenJudge | None = None,
        rewrites: Sequence[TextRewrite] = (),
        forced_text: str = "",
    ) -> None:
        self._detokenizer = detokenizer
        self._judge = judge
        self._filters: tuple[TextFilter, ...] = (*filters, *([] if judge is None else [judge]))
        self._num_kept_back = [0] * len(self._filters)  # characters that each was given and has not passed on
        self._held: deque[tuple[Scored, int, int]] = deque()  # token, [start, stop) of its text
        self._num_read = -len(forced_text)
        self._num_shown = 0
        self._written = Written(rewrites)
        self._ended_by: str | None = None
        self.num_forced = 0
        """Tokens so far of which nothing stands behind the forced text."""
        self.stopped = False

    @property
    def forcing(self) -> bool:
        """Whether some of the forced text has still to come."""
        return self._num_read < 0

    def push_all(self, tokens: Sequence[Scored]) -> Piece:
        """As pushing each in turn, where none of them or only the last sets `stopped`; else too many are taken."""
        text = ""
        for token in tokens:
            part, start = self._read(self._detokenizer.push(token.token_id))
            if start < 0:
                self.num_forced += 1
                continue
            if self._judge is not None:
                self._judge.see(token)
            self._held.append((token, start, self._num_read))
            text += part
        if not self._held:
            return NOTHING
        return self._show(self._filter(text, last=False), last=self.stopped)

    def push(self, token: Scored) -> Piece:
        """Take the next token. When this sets `stopped`, the piece is the last one."""
        text, start = self._read(self._detokenizer.push(token.token_id))
        if start < 0:
            self.num_forced += 1
            return NOTHING
        if self._judge is not None:
            self._judge.see(token)
        self._held.append((token, start, self._num_read))
        return self._show(self._filter(text, last=False), last=self.stopped)

    def finish(self) -> Piece:
        """The rest, when generation ended without `stopped`."""
        text, _ = self._read(self._detokenizer.finish())
        return self._show(self._filter(text, last=True), last=True)

    def _read(self, text: str) -> tuple[str, int]:
        """What of the text stands behind the forced one, and where it starts there; below 0: nothing does."""
        start = self._num_read
        self._num_read += len(text)
        if start >= 0:
            return text, start
        return text[-start:], 0 if self._num_read > 0 else start

    def _filter(self, text: str, last: bool) -> str:
        """What comes out behind all filters. Where one stops, the text ends for those behind it."""
        for position, each in enumerate(self._filters):
            num_given = len(text)
            text = each.push(text)
            if last and not each.stopped:
                text += each.finish()
            if each.stopped:
                self.stopped = last = True
                self._ended_by = each.rule  # the last of them left the least
            self._num_kept_back[position] += num_given - len(text)
        return text

    def _show(self, text: str, last: bool) -> Piece:
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
        written = self._written.push(text) + (self._written.finish() if last else "")
        places = tuple(self._written.place(start) for start in starts)
        if not last:
            return Piece(written, tuple(shown), places)
        confidence = None if self._judge is None else self._judge.confidence
        return Piece(written, tuple(shown), places, self._cuts(), confidence, self._ended_by)

    def _cuts(self) -> tuple[Cut, ...]:
        kept_back = zip(self._filters, self._num_kept_back, strict=True)
        return tuple(Cut(each.rule, count) for each, count in kept_back if count)
