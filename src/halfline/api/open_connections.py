"""Which connections are open, and which of them has to go for a new one when there are too many.

Knows neither HTTP nor sockets: what a connection is waiting for it is asked.
"""

from collections.abc import Callable
from typing import Protocol


class Connection(Protocol):
    """What has to be known of one."""

    @property
    def answering(self) -> bool:
        """Whether a request of it is being read or answered."""

    @property
    def begins_a_request(self) -> bool:
        """Whether the head of a request is wanted or begun, and not whole."""

    def drop(self) -> None:
        """Close it at once."""


class OpenConnections:
    """At most `most`, in the order in which they were last useful: made, or asked something."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[Connection, None] = {}

    def enter(self, connection: Connection) -> bool:
        """Count it among those that are open. Where there are as many as there may be another is dropped: first of
        those that have not said what they want, then of those that pause between two requests, each the one that has
        been of no use for longest. False: all are being answered, and it is not counted.
        """
        if len(self._open) >= self._most:
            loser = self._first(lambda each: each.begins_a_request) or self._first(lambda each: True)
            if loser is None:
                return False
            self.leave(loser)
            loser.drop()
        self._open[connection] = None
        return True

    def asked(self, connection: Connection) -> None:
        """It has sent the whole head of a request."""
        if connection in self._open:
            del self._open[connection]
            self._open[connection] = None

    def leave(self, connection: Connection) -> None:
        """It is closed, or about to be."""
        self._open.pop(connection, None)

    def _first(self, fits: Callable[[Connection], bool]) -> Connection | None:
        return next((each for each in self._open if not each.answering and fits(each)), None)
