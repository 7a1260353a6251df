"""The order of things for every call that generates: read, understand, generate while the client listens, account,
reply. What fields mean is the dialect's, what errors mean is `failures`'.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from halfline.api.accounts import account
from halfline.api.call import Arrival, Call, Read
from halfline.api.live import LiveRequests
from halfline.api.observed import REQUEST_ID
from halfline.api.options import ApiOptions
from halfline.api.reply_stream import SUPERSEDED, ReplyStream
from halfline.api.running import RunningCalls
from halfline.api.serving import Loaded, Pipeline, Serving
from halfline.api.tenants import tenant_of
from halfline.request import Completion, CompletionRequest, Document, Receipt, Tier
from halfline.telemetry.metrics import Metrics

T = TypeVar("T")
C = TypeVar("C")

# Understanding a larger body takes longer than a keystroke's reply should wait for it.
_INLINE_BYTES = 1 << 16


class Answering:
    """One for the whole application: every dialect's calls can be cancelled by their names."""

    def __init__(self, serving: Serving, live: LiveRequests, metrics: Metrics, options: ApiOptions) -> None:
        self.serving = serving
        self.running = RunningCalls()
        self._live = live
        self._metrics = metrics
        self._options = options
        self._reading = asyncio.Lock()  # one large body at a time: it becomes many times its size

    async def answer(self, request: Request, read: Read, *, id_prefix: str = "cmpl") -> Response:
        """The reply to one request of a dialect. Raises what `read` and the pipeline refuse with."""
        body = await request.body()
        loaded = self.serving.loaded
        arrival = Arrival(
            call_id=f"{id_prefix}-{uuid.uuid4().hex}",
            tenant=tenant_of(request),
            created=int(time.time()),
            headers=request.headers,
            options=self._options,
            loaded=loaded,
        )
        call = _from_source(await self._inline_or_not(body, read, arrival), request)

        def ended() -> None:
            self.running.left(call)
            account(call, loaded.pipeline, self._metrics)

        self.running.entered(call, request.scope[REQUEST_ID])
        if call.stream is not None:
            stream = ReplyStream(call, call.stream, loaded, self._live, ended)
            await stream.start(request.receive)
            return stream
        try:
            completions = await self._live.run(_complete_all(loaded.pipeline, call), request.receive)
        finally:
            ended()
        _check_whole(completions, loaded)
        receipts = [completion.receipt for completion in completions]
        headers = {"X-Cache": _tier(receipts), **_costs(receipts)}
        if superseded(completions):
            headers[SUPERSEDED] = "1"
        return JSONResponse(call.reply.whole(completions), headers=headers)

    async def computed(self, request: Request, compute: Callable[[bytes, Loaded], T]) -> T:
        """What `compute` makes of the request's body, for calls that generate nothing."""
        body = await request.body()
        return await self._inline_or_not(body, compute, self.serving.loaded)

    async def _inline_or_not(self, body: bytes, read: Callable[[bytes, C], T], context: C) -> T:
        """A large body is read in a thread."""
        if len(body) <= _INLINE_BYTES:
            return read(body, context)
        async with self._reading:
            return await asyncio.to_thread(read, body, context)


def _from_source(call: Call, request: Request) -> Call:
    """Documents without a path are known by the machine they come from: no dialect tells more."""
    source = "" if request.client is None else request.client.host
    return replace(call, requests=tuple(_document_from(source, each) for each in call.requests))


def _document_from(source: str, request: CompletionRequest) -> CompletionRequest:
    if not isinstance(request.prompt, Document) or request.prompt.path is not None:
        return request
    return replace(request, prompt=replace(request.prompt, source=source))


def superseded(completions: Sequence[Completion]) -> bool:
    """Whether a newer request took the place of this one before it was done."""
    return any(
        choice.finish_reason == "superseded" for completion in completions for choice in completion.choices
    )


async def _complete_all(pipeline: Pipeline, call: Call) -> list[Completion]:
    """All requests at once; the first failure ends the others and is raised as it is."""
    if len(call.requests) == 1:  # a keystroke, which a group of tasks would make wait two turns
        return [await pipeline.complete(call.requests[0])]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(pipeline.complete(request)) for request in call.requests]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def _check_whole(completions: Sequence[Completion], loaded: Loaded) -> None:
    """Raises EngineFailed when a choice was lost on the way: half an answer must not look like a whole one."""
    if any(choice.finish_reason == "failed" for completion in completions for choice in completion.choices):
        raise loaded.engine_failed()


def _tier(receipts: Sequence[Receipt]) -> Tier:
    """Of the whole reply: `miss` as soon as anything was computed."""
    tiers = {receipt.tier for receipt in receipts}
    return tiers.pop() if len(tiers) == 1 and "continued" not in tiers else "miss"


def _costs(receipts: Sequence[Receipt]) -> dict[str, str]:
    """The slowest request of each phase, in milliseconds; shown by browsers' and editors' network views."""
    if not receipts:
        return {}
    phases = {
        "queue": max(receipt.queue_ms for receipt in receipts),
        "prefill": max(receipt.prefill_ms for receipt in receipts),
        "decode": max(receipt.decode_ms for receipt in receipts),
        "total": max(receipt.total_ms for receipt in receipts),
    }
    timing = ", ".join(f"{name};dur={duration:.2f}" for name, duration in phases.items())
    return {"Server-Timing": timing, "OpenAI-Processing-Ms": str(round(phases["total"]))}
