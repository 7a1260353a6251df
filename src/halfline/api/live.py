"""Requests being answered, and the two ways they end early: the client leaves, or the server stops."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from starlette.types import Receive

from halfline.errors import ShuttingDown

T = TypeVar("T")

_AT_ONCE = 0.0  # of the loop's time, which is past


class ClientGone(Exception):
    """Nobody reads the reply any more, so there is none."""


class LiveRequests:
    """Runs the work of each request and can end all of it."""

    def __init__(self) -> None:
        self._stopping = asyncio.Event()
        self._waiting: set[asyncio.Timeout] = set()

    def end_all(self) -> None:
        """Cancel running work; whoever awaits it sees ShuttingDown. Later work ends at once. Idempotent."""
        self._stopping.set()
        for patience in self._waiting:
            if not patience.expired():
                patience.reschedule(_AT_ONCE)

    async def until(self, due_at: float, coming: Awaitable[T]) -> T:
        """What comes. Raises TimeoutError at the loop's time `due_at`, ShuttingDown when the server stops before."""
        try:
            async with asyncio.timeout_at(_AT_ONCE if self._stopping.is_set() else due_at) as patience:
                self._waiting.add(patience)
                try:
                    return await coming
                finally:
                    self._waiting.discard(patience)
        except TimeoutError:
            if self._stopping.is_set():
                raise ShuttingDown() from None
            raise

    async def run(self, work: Awaitable[T], receive: Receive | None) -> T:
        """The result of `work`, cancelled and awaited as soon as the client leaves or the server stops.

        The request's body must have been read: from then on `receive` only tells of the disconnect. None: who calls is
        cancelled when the client leaves.
        Raises ClientGone or ShuttingDown in those cases, else what `work` raises.
        """
        job = asyncio.ensure_future(work)
        watchers: list[asyncio.Future[Any]] = []
        try:
            await asyncio.sleep(0)
            # A known answer is there by now, sooner than anybody could look out for the client.
            if not job.done():
                stopping = asyncio.ensure_future(self._stopping.wait())
                watchers = [stopping]
                if receive is not None:
                    watchers.append(asyncio.ensure_future(_disconnect(receive)))
                await asyncio.wait((job, *watchers), return_when=asyncio.FIRST_COMPLETED)
                if not job.done():
                    raise ShuttingDown() if stopping.done() else ClientGone()
            return job.result()
        finally:
            for task in (job, *watchers):
                task.cancel()
            if watchers or not job.done():
                await asyncio.gather(job, *watchers, return_exceptions=True)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
