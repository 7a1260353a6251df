"""Goes on computing what came too late for whoever asked (C5): as idle work, so that it is known the next time.

Ends when the same cursor asks again: the answer wanted then begins with whatever is known.
"""

from collections.abc import Callable

from halfline.engine.handle import Generation
from halfline.errors import NotNow
from halfline.request import CompletionRequest, Document, Identity


class LateWork:
    """At most one piece of it per cursor; what has none goes on until it is done. Lives on the event loop."""

    def __init__(self) -> None:
        self._by_cursor: dict[Identity, Generation] = {}

    def begin(self, cursor: Identity | None, compute: Callable[[], Generation | None]) -> None:
        """`compute` submits it, or returns None when nothing is missing. Where there is no room for it it is let be."""
        self.end(cursor)
        self._by_cursor = {each: work for each, work in self._by_cursor.items() if not work.ended}
        try:
            generation = compute()
        except NotNow:
            return
        if generation is not None and cursor is not None:
            self._by_cursor[cursor] = generation

    def end(self, cursor: Identity | None) -> None:
        generation = None if cursor is None else self._by_cursor.pop(cursor, None)
        if generation is not None:
            generation.cancel()


def cursor_of(request: CompletionRequest) -> Identity | None:
    """Where it types, as far as the request says; None: a raw prompt is asked from nowhere."""
    if request.identity is not None:
        return request.identity
    if not isinstance(request.prompt, Document):
        return None
    return Identity(request.tenant, request.user, request.prompt.series or "", request.key)
