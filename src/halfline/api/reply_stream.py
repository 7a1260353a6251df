"""An answer sent event by event, in whatever dialect it is written.

start        waits for the first delta, so that a request that fails before it gets an HTTP status
__call__     sends it and the rest; an answer that is whole by then, which known ones are, as one piece
the end      is the dialect's; a stream cut short says so in its last events
"""

import time
from collections.abc import AsyncGenerator, Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from halfline.api.call import Call, StreamedReply
from halfline.api.cost_headers import first_text_headers
from halfline.api.live import ClientGone, LiveRequests
from halfline.api.merge import merged
from halfline.api.serving import Loaded
from halfline.errors import NotNow, ShuttingDown, UnusableLogits
from halfline.request import ChoiceDelta

SUPERSEDED = "X-Halfline-Superseded"


class ReplyStream(Response):
    """The reply to a streamed call. Once started it must be called, or its generator closed by `aclose`."""

    def __init__(
        self, call: Call, reply: StreamedReply, loaded: Loaded, live: LiveRequests, ended: Callable[[], None]
    ) -> None:
        """`ended` is called once, when nothing runs for the call any more."""
        # Proxies that buffer would hold ghost text back until its end.
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", "X-Cache": "miss"}
        self.status_code = 200
        self.media_type = reply.media_type
        self._reply = reply
        self.background = None
        self.init_headers(headers)
        del self.headers["content-length"]
        self._call = call
        self._loaded = loaded
        self._live = live
        self._ended = ended
        self._deltas = merged([loaded.pipeline.stream(request) for request in call.requests])
        self._is_one = len(call.requests) == 1 and call.requests[0].num_choices == 1
        self._whole: bytes | None = None  # all events, where the first delta was the last one
        self._first: tuple[int, ChoiceDelta]

    async def start(self, receive: Receive) -> None:
        """Wait for the first delta. Raises what the pipeline refuses with, ClientGone and ShuttingDown."""
        asked_at = time.perf_counter()
        try:
            await self._live.run(self._begin(), receive)
        except BaseException:
            await self._close()
            raise
        self.headers.update(first_text_headers((time.perf_counter() - asked_at) * 1e3))
        if len(self._call.requests) == 1 and self._first[1].tier != "continued":
            self.headers["X-Cache"] = self._first[1].tier
        if self._first[1].finish_reason == "superseded":
            self.headers[SUPERSEDED] = "1"

    async def _begin(self) -> None:
        self._first = position, delta = await anext(self._deltas)
        if self._is_one and delta.finish_reason is not None:
            async for _ in self._deltas:
                raise AssertionError("a choice goes on behind its end")
            self._whole = self._reply.delta(position, delta) + self._ending(delta.finish_reason == "failed")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if self._whole is not None:
            await self._close()
            await send({"type": "http.response.body", "body": self._whole})
            return
        try:
            closing = await self._live.run(self._send_deltas(send), receive)
        except ClientGone:
            return
        except ShuttingDown:
            closing = self._reply.cut_short()
        except (NotNow, UnusableLogits) as error:  # shed, or broken, after its first event
            closing = self._reply.error(error)
        finally:
            await self._close()
        await _send(send, closing)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_deltas(self, send: Send) -> bytes:
        """What is left to be sent behind the deltas."""
        failed = False
        async for position, delta in self._all_deltas():
            failed = failed or delta.finish_reason == "failed"
            await _send(send, self._reply.delta(position, delta))
        return self._ending(failed)

    def _ending(self, failed: bool) -> bytes:
        if failed:
            return self._reply.error(self._loaded.engine_failed())
        receipts = [self._loaded.pipeline.receipt(request.id) for request in self._call.requests]
        return self._reply.end([receipt for receipt in receipts if receipt is not None])

    async def _all_deltas(self) -> AsyncGenerator[tuple[int, ChoiceDelta], None]:
        yield self._first
        async for arrival in self._deltas:
            yield arrival

    async def _close(self) -> None:
        await self._deltas.aclose()
        self._ended()


async def _send(send: Send, body: bytes) -> None:
    if body:
        await send({"type": "http.response.body", "body": body, "more_body": True})
