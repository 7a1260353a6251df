"""Two slots between preparing the next request's context and running this one's (A14).

    slot    free ──take──▶ filling ──valid──▶ held ──release──▶ free
                   ready is a free slot: with none, whoever comes next waits

One worker thread fills slots, one after the other in the order they were taken, while the engine's thread fetches KV
and runs what was filled before: the event loop has no part in either. A slot has two sides, the one that fills and the
one that waits and then holds. It is free again when both have let go of it, each exactly once: a request that is
cancelled lets go at once, and its filling, if it began, when it ends; what it made is nobody's.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

Content = TypeVar("Content")

NUM_SLOTS = 2


class _Slot:
    """Calls `free` when both sides have let go."""

    def __init__(self, free: Callable[[], None]) -> None:
        self._free = free
        self._num_sides = 2
        self.is_filling = False

    def let_go(self) -> None:
        self._num_sides -= 1
        assert self._num_sides >= 0, "each side lets go once"
        if self._num_sides == 0:
            self._free()


class DoubleBuffer:
    """Lives on one event loop."""

    def __init__(self) -> None:
        self._ready = asyncio.Semaphore(NUM_SLOTS)
        self._filler = asyncio.Lock()
        self.num_free = NUM_SLOTS

    @asynccontextmanager
    async def prepared(self, make: Callable[[], Content]) -> AsyncGenerator[Content, None]:
        """What `make` returns, made in a thread; the slot is held until the block is left. Raises what it raises."""
        await self._ready.acquire()
        self.num_free -= 1
        slot = _Slot(self._free)
        filling = asyncio.ensure_future(self._fill(make, slot))
        filling.add_done_callback(lambda done: _filled(done, slot))
        try:
            yield await asyncio.shield(filling)
        finally:
            if not slot.is_filling:  # a thread cannot be stopped, and need not be begun
                filling.cancel()
            slot.let_go()

    async def _fill(self, make: Callable[[], Content], slot: _Slot) -> Content:
        async with self._filler:
            slot.is_filling = True
            return await asyncio.to_thread(make)

    def _free(self) -> None:
        self.num_free += 1
        self._ready.release()


def _filled(filling: "asyncio.Future[Content]", slot: _Slot) -> None:
    """Here and not in the filling itself, which may be cancelled before its first line."""
    if not filling.cancelled():
        filling.exception()  # seen, also if nobody waits any longer
    slot.let_go()
