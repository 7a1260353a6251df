"""Has the engine read, piece by piece, what a document's window will begin with (context/layout.py).

What is due is read in the pause behind an answer. Where there was none, because the next keystroke came at once, it is
read beside that keystroke's successor: a piece at a time, so that no keystroke waits for more than one. When the window
begins there, its KV is there; whatever was not read is computed then. Either way it reads the same.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from halfline.engine.handle import EngineHandle, Generation
from halfline.errors import NotNow
from halfline.pipeline.works import Works
from halfline.request import CompletionRequest, Identity, Priority

_MAX_CURSORS = 256


class ReadAhead:
    """Remembers of each cursor what is due. Lives on the event loop."""

    def __init__(self, engine: EngineHandle, works: Works) -> None:
        self._engine = engine
        self._works = works
        self._due: OrderedDict[Identity, _Due] = OrderedDict()  # the latest last

    def due(self, cursor: Identity, token_ids: Sequence[int]) -> None:
        """So much should be read before this cursor's next keystroke; nothing: none is planned."""
        before = self._due.pop(cursor, None)
        if token_ids:
            self._due[cursor] = _Due(token_ids) if before is None else before.followed_by(token_ids)
            if len(self._due) > _MAX_CURSORS:
                self._due.popitem(last=False)

    async def read(
        self, cursor: Identity, request: CompletionRequest, carry: Callable[[Generation], None]
    ) -> None:
        """What is due, as idle work. Ends early, and quietly, when there is no room for it."""
        due = self._due.get(cursor)
        if due is None or due.is_read:
            return
        generation = due.reading = self._submit(request, due.token_ids, "idle")
        if generation is None:
            return
        carry(generation)
        try:
            async for _ in generation:
                pass
        finally:
            generation.cancel()

    def keep_up(self, cursor: Identity, request: CompletionRequest) -> None:
        """Have what was due before the latest keystroke be read at last; nobody ends that, and nobody waits for it."""
        due = self._due.get(cursor)
        if due is not None and due.overdue and (due.catching_up is None or due.catching_up.ended):
            due.catching_up = self._submit(request, due.overdue, "batch")

    def _submit(
        self, request: CompletionRequest, token_ids: Sequence[int], priority: Priority
    ) -> Generation | None:
        try:
            return self._engine.submit([self._works.reading(request, token_ids, priority)])
        except NotNow:
            return None


@dataclass(slots=True)
class _Due:
    """`overdue`: what of it was due at the keystroke before, and was not read. Each is read by a generation."""

    token_ids: Sequence[int]
    reading: Generation | None = None
    overdue: Sequence[int] = ()
    catching_up: Generation | None = None

    @property
    def is_read(self) -> bool:
        outcome = None if self.reading is None else self.reading.outcomes.get(0)
        return outcome is not None and outcome.finish_reason == "length"

    def followed_by(self, token_ids: Sequence[int]) -> "_Due":
        return _Due(token_ids, None, () if self.is_read else self.token_ids, self.catching_up)
