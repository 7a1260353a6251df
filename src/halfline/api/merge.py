"""Several asynchronous streams read as one."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

T = TypeVar("T")


async def merged(streams: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[tuple[int, T], None]:
    """(position of its stream, item) in the order of arrival.

    The first stream to fail ends all; leaving early closes every stream before control returns.
    """
    if len(streams) == 1:
        async with aclosing(streams[0]) as only:
            async for item in only:
                yield 0, item
        return
    # Unbounded: a full asyncio.Queue lets a busy stream overtake a waiting one for ever. Deltas are small and
    # `max_tokens` bounds their number.
    queue: asyncio.Queue[tuple[int, T] | Exception | None] = asyncio.Queue()
    drains = [
        asyncio.ensure_future(_drain(position, stream, queue)) for position, stream in enumerate(streams)
    ]
    try:
        num_open = len(drains)
        while num_open:
            arrival = await queue.get()
            if isinstance(arrival, Exception):
                raise arrival
            if arrival is None:
                num_open -= 1
            else:
                yield arrival
    finally:
        for task in drains:
            task.cancel()
        await asyncio.gather(*drains, return_exceptions=True)


async def _drain(
    position: int,
    stream: AsyncGenerator[T, None],
    queue: "asyncio.Queue[tuple[int, T] | Exception | None]",
) -> None:
    """Everything of one stream into the queue, then None, or the exception that ended it."""
    async with aclosing(stream) as items:
        try:
            async for item in items:
                await queue.put((position, item))
        except Exception as error:
            await queue.put(error)
        else:
            await queue.put(None)
