"""Where bodies are understood: small ones at once, others in a thread, one after the other.

A body becomes many times its size, so no two of a lane are read at a time. What takes long for another reason than its
size has a lane of its own, and nobody else waits for it.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
C = TypeVar("C")


class ReadingLane:
    def __init__(self, inline_bytes: int) -> None:
        """Bodies up to `inline_bytes` are read by the event loop, which nothing else can use meanwhile."""
        self._inline_bytes = inline_bytes
        self._lock = asyncio.Lock()

    async def read(self, body: bytes, read: Callable[[bytes, C], T], context: C) -> T:
        """Raises what `read` does."""
        if len(body) <= self._inline_bytes:
            return read(body, context)
        async with self._lock:
            return await asyncio.to_thread(read, body, context)
