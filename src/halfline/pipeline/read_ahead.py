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

_MOST_BESIDE = 32
"""Tokens read beside one keystroke: twice what is due at each, so that what was missed is made up for."""


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
        if due is None or due.look() >= len(due.token_ids):
            return
        generation = self._submit(request, due.token_ids, "idle")
        if generation is None:
            return
        due.reading = _Reading(len(due.token_ids), generation)
        carry(generation)
        try:
            async for _ in generation:
                pass
        finally:
            generation.cancel()

    def keep_up(self, cursor: Identity, request: CompletionRequest) -> None:
        """Have what was due before the latest keystroke be read at last; nobody ends that, and nobody waits for it."""
        due = self._due.get(cursor)
        token_ids = () if due is None else due.overdue()
        if due is not None and token_ids:
            generation = self._submit(request, token_ids, "batch")
            due.catching_up = None if generation is None else _Reading(len(token_ids), generation)

    def _submit(
        self, request: CompletionRequest, token_ids: Sequence[int], priority: Priority
    ) -> Generation | None:
        try:
            return self._engine.submit([self._works.reading(request, token_ids, priority)])
        except NotNow:
            return None


@dataclass(frozen=True, slots=True)
class _Reading:
    num_tokens: int
    generation: Generation

    @property
    def done(self) -> bool:
        outcome = self.generation.outcomes.get(0)
        return outcome is not None and outcome.finish_reason == "length"


@dataclass(slots=True)
class _Due:
    """`num_overdue` of the tokens were due at the keystroke before, and at least `num_read` have been read."""

    token_ids: Sequence[int]
    num_overdue: int = 0
    num_read: int = 0
    reading: _Reading | None = None
    catching_up: _Reading | None = None

    def followed_by(self, token_ids: Sequence[int]) -> "_Due":
        num_due = len(self.token_ids)
        if tuple(token_ids[:num_due]) != tuple(self.token_ids):
            return _Due(token_ids)  # another plan
        return _Due(token_ids, num_due, self.look(), None, self.catching_up)

    def look(self) -> int:
        """How many have been read by now."""
        for each in (self.reading, self.catching_up):
            if each is not None and each.done:
                self.num_read = max(self.num_read, each.num_tokens)
        return self.num_read

    def overdue(self) -> Sequence[int]:
        """What to read beside a keystroke, up to there; nothing while more is being read."""
        num_read = self.look()
        if num_read >= self.num_overdue or (self.catching_up and not self.catching_up.generation.ended):
            return ()
        return self.token_ids[: min(self.num_overdue, num_read + _MOST_BESIDE)]
