"""What a tier that guesses answers is asked, and what it has to do."""

from dataclasses import dataclass
from typing import Protocol

from halfline.engine.speculation.draft import ProposalSource


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where an answer is wanted. `before` and `behind` are text of any length, `path` the file's name if it has one.

    What one tenant was answered another is never told, not even as a guess: its speed would tell.
    """

    tenant: str
    before: str
    behind: str
    path: str | None


class Look(Protocol):
    """At one cursor."""

    def guess(self) -> str | None:
        """What may come next; None: nobody knows."""

    def learn(self, text: str) -> None:
        """What came."""


class GuessingTier(Protocol):
    """Remembers what came at cursors, and guesses what comes at others. Takes about a millisecond, and waits for
    nothing. What it guesses is never believed: the model reads it as a draft.
    """

    @property
    def source(self) -> ProposalSource: ...

    def look(self, cursor: Cursor) -> Look | None:
        """None where it knows nothing to do with that cursor."""
