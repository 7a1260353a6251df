"""An answer when it is wanted, instead of all of it later (C5).

At its deadline a request ends with what there is: the whole lines, if at least one is complete, else everything up to
the last whole token. A stream has sent its text already, so it ends where it is.

Knows time and pieces of text; neither tokens' meaning nor who computes. What goes on behind the deadline is the
pipeline's to decide.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from halfline.sampling.reader import NOTHING, Piece


class Alarm(Protocol):
    """Something that will happen, unless it is called off."""

    def cancel(self) -> None: ...


SetAlarm = Callable[[float, Callable[[], None]], Alarm]
"""Have a function called so many seconds from now."""


def event_loop_alarm(seconds: float, ring: Callable[[], None]) -> Alarm:
    return asyncio.get_running_loop().call_later(seconds, ring)


class WholeLines:
    """Lets an answer through line by line: what is behind its last line break is known to be a line only at its end.

        fib(n - 1) + fi        a deadline here: both tokens go out, they are all there is
        fib(n - 1)⏎   retu     a deadline here: one line goes out

    Blank lines alone are not worth cutting for.
    """

    def __init__(self) -> None:
        self._held = NOTHING
        self._num_passed = 0  # characters
        self._shows_something = False

    def push(self, piece: Piece) -> Piece:
        self._held += piece
        line_end = self._held.text.rfind("\n")
        if line_end < 0 or not (self._shows_something or self._held.text[:line_end].strip()):
            return NOTHING
        self._shows_something = True
        passed, self._held = split(self._held, self._num_passed, line_end)
        self._num_passed += line_end
        return passed

    def finish(self, *, late: bool) -> Piece:
        """What is held: all of it at the answer's own end, nothing of it `late` where a line is complete."""
        held, self._held = self._held, NOTHING
        return NOTHING if late and self._shows_something else held


def split(piece: Piece, start: int, num_characters: int) -> tuple[Piece, Piece]:
    """The piece's first characters, and the rest. `start`: where its text begins in the answer.

    A token belongs to where it starts.
    """
    end = start + num_characters
    num_tokens = sum(place < end for place in piece.starts)
    first = Piece(piece.text[:num_characters], piece.tokens[:num_tokens], piece.starts[:num_tokens])
    rest = Piece(
        piece.text[num_characters:],
        piece.tokens[num_tokens:],
        piece.starts[num_tokens:],
        piece.cuts,
        piece.confidence,
        piece.ended_by,
    )
    return first, rest
