"""Where the window before the cursor begins, so that a keystroke's prompt begins like an earlier one.

The start of a window is an *anchor*. It stays while text is typed, and is remembered with what the model read behind
it: a cursor that jumps away and comes back finds its anchor, and with it, as a rule, its KV.

    document   ─────────a──────────────────█──────────     a: the anchor, the window ends at the cursor █
    later      ─────────a──────────────────xyz█───────     the same anchor, three new characters
    up there   ──a'─────█──────────────────xyz────────     an anchor of its own, fresh and near
    back       ─────────a──────────────────xyz█───────     the old one again: nothing is new

Anchors are known by the text behind them, not by their place: an edit above moves none of them, an edit behind one
costs what follows the edit. So a window is a function of the texts before the cursor that came before, and of nothing
else: neither of time nor of what the engine still holds.

Of the anchors in reach the one that leaves least to compute is taken, the farthest among equals. A new one begins
`fresh_tokens` before the cursor: where all others would cost more, or have grown beyond `max_tokens`. That is little to
wait for, and little to go by: when it has been kept for a while, the window begins `grown_tokens` before the cursor.
Where is planned at once, so that the engine may read it ahead, a piece at each keystroke; when all pieces are due the
window begins there. Whether they were read changes nothing here.

    keystroke     0        2     3     4           33    34    35
    window        fresh    kept  kept  kept  ...   kept  kept  grown
    due                    16    32    48    ...   512   512            tokens of what is planned
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from halfline.document.encoded_text import EncodedText, TextEncoder, check_encodable, common_length
from halfline.errors import UnencodableText

Reason = Literal["whole", "kept", "returned", "fresh", "full", "grown"]
"""Everything before the cursor, and it is short · the latest anchor · an older one · a new one, as none was near · a
new one, as the window was full · one farther away than the new one, which has been kept for a while."""

PLANS_AFTER = 2
"""Keystrokes at a fresh anchor: most that are left again are left sooner."""

PIECE_TOKENS = 16
"""Of what is planned, due at each keystroke from then on: even where nobody ever pauses that is hardly felt."""

_MAX_WINDOWS = 24  # remembered per document
_HEAD_CHARACTERS = 48  # by which an anchor is recognised
_MAX_FOUND = 4  # places that look like an anchor
_MAX_TRIED = 3  # anchors: encoding what is behind one takes as long as there is new
_WORTH_KEEPING = 160  # characters: a longer rest of a window, otherwise overwritten, is remembered apart
_CHARACTERS = 4  # of a token of code, about
_LINE = re.compile(r"(?m)^([ \t]*)(?=\S)")


@dataclass(frozen=True, slots=True)
class LayoutSizes:
    """In tokens. `least_tokens`: an anchor nearer than this is used only at the document's start."""

    fresh_tokens: int
    least_tokens: int
    grown_tokens: int
    max_tokens: int

    @property
    def reach(self) -> int:
        """Characters before the cursor that are looked at: twice what so many tokens usually have."""
        return 2 * _CHARACTERS * self.max_tokens


@dataclass(frozen=True, slots=True)
class Placement:
    """The window is `encoded`, from the character `start` of the document on. `num_expected` of its tokens are behind
    what the anchor was read with before. `planned` is how a window to come begins, of which `num_due` tokens should
    have been read before the next keystroke; None: none is planned.
    """

    encoded: EncodedText
    start: int
    reason: Reason
    num_expected: int
    planned: EncodedText | None = None
    num_due: int = 0


@dataclass(frozen=True, slots=True)
class _Window:
    """`num_kept`: at how many keystrokes it was used again; None: it need not grow. `planned`: what it grows into."""

    encoded: EncodedText
    num_kept: int | None = None
    planned: EncodedText | None = None

    @property
    def num_due(self) -> int:
        """Tokens of what is planned."""
        if self.planned is None or self.num_kept is None:
            return 0
        return min(len(self.planned), (self.num_kept - PLANS_AFTER + 1) * PIECE_TOKENS)

    @property
    def grows(self) -> bool:
        """Whether everything planned was due a keystroke ago: what was not read in a pause has been read since."""
        if self.planned is None or self.num_kept is None:
            return False
        return (self.num_kept - PLANS_AFTER - 1) * PIECE_TOKENS >= len(self.planned)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A remembered window whose anchor is at `place` of the text in reach; counts are of characters."""

    window: _Window
    place: int
    num_common: int
    num_new: int


class Layout:
    """One document's anchors; every call of `place` may add one."""

    def __init__(self, encoder: TextEncoder, sizes: LayoutSizes) -> None:
        self._encoder = encoder
        self._sizes = sizes
        self._windows: list[_Window] = []  # the latest used last

    def fork(self) -> "Layout":
        """One that knows the same and learns apart."""
        copy = Layout(self._encoder, self._sizes)
        copy._windows = list(self._windows)
        return copy

    def place(self, prefix: str) -> Placement:
        """The window for what stands before the cursor. Raises UnencodableText."""
        first = max(0, len(prefix) - self._sizes.reach)
        near = prefix[first:]
        full = False
        for each in sorted(self._candidates(near, first == 0), key=_cost)[:_MAX_TRIED]:
            check_encodable(near[each.place :], first + each.place)
            encoded = self._encoder.change(each.window.encoded, near[each.place :])
            num_new = _num_behind(encoded, each.num_common)
            if len(encoded) > self._sizes.max_tokens:
                full = True
            elif num_new <= self._sizes.fresh_tokens:
                reason: Reason = "kept" if each.window is self._windows[-1] else "returned"
                window = self._remember(each, self._kept_again(each.window, near, first), encoded)
                grown = self._grown(window, near, first)
                if grown is not None:
                    return grown
                return Placement(encoded, first + each.place, reason, num_new, window.planned, window.num_due)
        place, encoded = self._begin(near, first, self._sizes.fresh_tokens)
        whole = first + place == 0
        self._add(_Window(encoded, None if whole else 0))
        reason = "full" if full else "whole" if whole else "fresh"
        return Placement(encoded, first + place, reason, len(encoded))

    def _kept_again(self, window: _Window, near: str, offset: int) -> _Window:
        """The window after one keystroke more, with a plan if it is time for one."""
        if window.num_kept is None or self._sizes.grown_tokens <= self._sizes.fresh_tokens:
            return window
        planned = window.planned
        if window.num_kept + 1 == PLANS_AFTER:
            try:
                _, planned = self._begin(near, offset, self._sizes.grown_tokens)
            except UnencodableText:  # half a character, in what has not been read and need not be
                planned = None
        return replace(window, num_kept=window.num_kept + 1, planned=planned)

    def _grown(self, window: _Window, near: str, offset: int) -> Placement | None:
        """The planned window, if it is time for it and it is still what stands there; None: the old one goes on."""
        if window.planned is None or not window.grows:
            return None
        text = window.planned.text
        places = {
            place: common_length(text, near[place : place + len(text)])
            for place in _places(text[:_HEAD_CHARACTERS], near, offset == 0)
        }
        place = max(places, key=lambda each: places[each], default=None)
        encoded = None if place is None else self._encoder.change(window.planned, near[place:])
        if place is None or encoded is None or _num_behind(encoded, places[place]) > self._sizes.fresh_tokens:
            self._windows[-1] = replace(window, num_kept=0, planned=None)  # it was edited since: plan anew
            return None
        self._windows[-1] = replace(window, num_kept=None, planned=None)
        if not len(window.encoded) < len(encoded) <= self._sizes.max_tokens:
            return None
        self._add(_Window(encoded))
        return Placement(encoded, offset + place, "grown", len(encoded))

    def _candidates(self, near: str, from_start: bool) -> Iterator[_Candidate]:
        """Where remembered windows would begin now. `near` begins at the document's start, or not."""
        for window in reversed(self._windows):
            text = window.encoded.text
            for place in _places(text[:_HEAD_CHARACTERS], near, from_start):
                if (place == 0 and from_start) or self._enough(window.encoded, len(near) - place):
                    num_common = common_length(text, near[place : place + len(text)])
                    yield _Candidate(window, place, num_common, len(near) - place - num_common)

    def _enough(self, window: EncodedText, num_characters: int) -> bool:
        """Whether so many characters of the window, or of one like it, have `least_tokens` tokens."""
        return len(window) * num_characters >= self._sizes.least_tokens * len(window.text)

    def _begin(self, near: str, offset: int, num_tokens: int) -> tuple[int, EncodedText]:
        """A window of at most so many tokens and where it begins: at a line, if it can. `near` begins at `offset`."""
        first = max(0, len(near) - 2 * _CHARACTERS * num_tokens)
        check_encodable(near[first:], offset + first)
        encoded = self._encoder.encode(near[first:])
        if offset + first == 0 and len(encoded) <= num_tokens:
            return 0, encoded
        start = self._start(encoded, num_tokens)
        return first + start, self._encoder.encode(encoded.text[start:])

    def _start(self, encoded: EncodedText, num_tokens: int) -> int:
        """The least indented line, the first of these, that leaves half of so many tokens or more."""
        text = encoded.text
        earliest = self._place_before(encoded, num_tokens)
        latest = self._place_before(encoded, num_tokens // 2)
        best, least_indent = earliest, len(text)
        for found in _LINE.finditer(text, earliest, latest):
            if len(found[1]) < least_indent:
                best, least_indent = found.start(1), len(found[1])
        return best

    def _place_before(self, encoded: EncodedText, num_tokens: int) -> int:
        """The first character of the last `num_tokens` tokens, or of a few less where one is spread over them."""
        for position in range(max(0, len(encoded) - num_tokens), len(encoded)):
            start = self._encoder.start_of(encoded, position)
            if start is not None:
                return start
        return len(encoded.text)

    def _remember(self, used: _Candidate, kept: _Window, encoded: EncodedText) -> _Window:
        """The used window as it is now; and as it was, if much of that would be forgotten."""
        num_lost = len(used.window.encoded.text) - used.num_common
        # If the cursor only went back, what is behind it may come again.
        window = kept if used.num_new == 0 else replace(kept, encoded=encoded)
        if used.num_new == 0 or num_lost <= _WORTH_KEEPING:
            self._windows = [each for each in self._windows if each is not used.window]
        self._add(window)
        return window

    def _add(self, window: _Window) -> None:
        self._windows.append(window)
        del self._windows[:-_MAX_WINDOWS]


def _cost(candidate: _Candidate) -> tuple[int, int]:
    return candidate.num_new, candidate.place


def _places(head: str, near: str, from_start: bool) -> Iterator[int]:
    """Where the head of a window stands; a text that begins like a document's first window is that document."""
    if from_start and head[:1] == near[:1]:
        yield 0
    if len(head) == _HEAD_CHARACTERS:
        place = len(near)
        for _ in range(_MAX_FOUND):
            place = near.rfind(head, 1, place + len(head) - 1)
            if place < 0:
                return
            yield place


def _num_behind(encoded: EncodedText, num_characters: int) -> int:
    """Tokens that do not end within the first characters."""
    num_bytes = len(encoded.text[num_characters:].encode())
    total = encoded.ends[-1] if encoded.ends else 0
    return len(encoded) - bisect_right(encoded.ends, total - num_bytes)
