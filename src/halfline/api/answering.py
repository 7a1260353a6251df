"""The order of things for every call that generates: read, understand, generate while the client listens, account,
reply. What fields mean is the dialect's, what errors mean is `failures`'.
"""

import asyncio
import hashlib
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive

from halfline.api.accounts import Accounts
from halfline.api.call import Arrival, Call, Read
from halfline.api.cost_headers import cost_headers
from halfline.api.live import LiveRequests
from halfline.api.observed import REQUEST_ID
from halfline.api.options import ApiOptions
from halfline.api.reading_lane import ReadingLane
from halfline.api.reply_stream import SUPERSEDED, ReplyStream
from halfline.api.running import RunningCalls
from halfline.api.serving import Loaded, Serving
from halfline.api.tenants import key_id_of, tenant_of
from halfline.pipeline.pipeline import Pipeline
from halfline.request import Caching, Completion, CompletionRequest, Document, Identity, Receipt, Tier
from halfline.telemetry.metrics import Metrics

T = TypeVar("T")

CURSOR = "x-halfline-cursor"
"""The header by which an editor says, in any dialect, which requests are one cursor's: the newer replaces the older."""

FRAGMENTS_PATH = "/v1/fragments"
"""Where answers are by their address (api/fragments.py)."""

# Understanding a larger body takes longer than a keystroke's reply should wait for it.
_INLINE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who asks, whichever port they came to. `source` is the address of their machine, "" where it has none."""

    tenant: str
    key_id: str
    headers: Headers
    source: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A call that counts as running until `ended` is called, once, when nothing runs for it any more."""

    call: Call
    loaded: Loaded
    ended: Callable[[], None]


class Answering:
    """One for the whole application: every dialect's calls can be cancelled by their names."""

    def __init__(self, serving: Serving, live: LiveRequests, metrics: Metrics, options: ApiOptions) -> None:
        self.serving = serving
        self.live = live
        self.metrics = metrics
        self.options = options
        self.running = RunningCalls()
        self.accounts = Accounts(metrics)
        self._lane = ReadingLane(_INLINE_BYTES)

    async def answer(
        self, request: Request, read: Read, *, id_prefix: str = "cmpl", lane: ReadingLane | None = None
    ) -> Response:
        """The reply to one request of a dialect, whose body is read in a lane; None: in that of all others. Raises what
        `read` and the pipeline refuse with.
        """
        asker = Asker(
            tenant=tenant_of(request),
            key_id=key_id_of(request),
            headers=request.headers,
            source="" if request.client is None else request.client.host,
            request_id=request.scope[REQUEST_ID],
        )
        begun = await self.begin(await request.body(), read, asker, id_prefix=id_prefix, lane=lane)
        if begun.call.stream is not None:
            stream = ReplyStream(begun.call, begun.call.stream, begun.loaded, self.live, begun.ended)
            await stream.start(request.receive)
            return stream
        completions = await self.whole(begun, request.receive)
        receipts = [completion.receipt for completion in completions]
        headers = {"X-Cache": _tier(receipts), **cost_headers(receipts)}
        # What is kept are all choices that were generated, of one request.
        if len(receipts) == 1 and receipts[0].address is not None and not begun.call.selects:
            headers["Content-Location"] = f"{FRAGMENTS_PATH}/{receipts[0].address}"
        if superseded(completions):
            headers[SUPERSEDED] = "1"
        return JSONResponse(begun.call.reply.whole(completions), headers=headers)

    async def begin(
        self,
        body: bytes,
        read: Read,
        asker: Asker,
        *,
        id_prefix: str = "cmpl",
        lane: ReadingLane | None = None,
    ) -> Begun:
        """The call that a body is, among those that run from now on. Raises what `read` refuses with."""
        loaded = self.serving.loaded
        arrival = Arrival(
            call_id=f"{id_prefix}-{uuid.uuid4().hex}",
            tenant=asker.tenant,
            created=int(time.time()),
            headers=asker.headers,
            options=self.options,
            loaded=loaded,
        )
        call = _asked_by(asker, await (lane or self._lane).read(body, read, arrival))

        def ended() -> None:
            self.running.left(call)
            self.accounts.ended(call, loaded.pipeline)

        self.running.entered(call, asker.request_id)
        return Begun(call=call, loaded=loaded, ended=ended)

    async def whole(self, begun: Begun, receive: Receive | None) -> Sequence[Completion]:
        """All that was asked for; `receive` as in `LiveRequests.run`. Raises what the pipeline refuses with, and
        EngineFailed when a choice was lost on the way: half an answer must not look like a whole one.
        """
        try:
            completions = await self.live.run(_complete_all(begun.loaded.pipeline, begun.call), receive)
        finally:
            begun.ended()
        if any(choice.finish_reason == "failed" for each in completions for choice in each.choices):
            raise begun.loaded.engine_failed()
        return completions

    async def computed(self, request: Request, compute: Callable[[bytes, Loaded], T]) -> T:
        """What `compute` makes of the request's body, for calls that generate nothing."""
        body = await request.body()
        return await self._lane.read(body, compute, self.serving.loaded)


def _asked_by(asker: Asker, call: Call) -> Call:
    """With what the dialect could not tell of its requests."""
    cursor = asker.headers.get(CURSOR, "")
    caching = _caching(",".join(asker.headers.getlist("cache-control")))
    return replace(
        call,
        requests=tuple(
            _completed(asker, cursor, place, caching, each) for place, each in enumerate(call.requests)
        ),
    )


def _completed(
    asker: Asker, cursor: str, place: int, caching: Caching, request: CompletionRequest
) -> CompletionRequest:
    """At once: every change makes a whole request, and checks it."""
    return replace(
        request,
        key=asker.key_id,
        caching=caching,
        prompt=_of_source(asker.source, request.prompt),
        identity=_identity(asker, cursor, place, request),
    )


def _of_source(source: str, prompt: str | tuple[int, ...] | Document) -> str | tuple[int, ...] | Document:
    """Documents without a path are known by the machine they come from: no dialect tells more."""
    if not isinstance(prompt, Document) or prompt.path is not None:
        return prompt
    return replace(prompt, source=source)


def _identity(asker: Asker, cursor: str, place: int, request: CompletionRequest) -> Identity | None:
    """Two keys of a tenant take turns, and neither ends what the other asked for. Where the dialect names nobody, the
    editor may. What is asked ahead of any keystroke replaces nothing; the requests of one call do not replace each
    other.
    """
    if request.identity is not None:
        return replace(request.identity, key=asker.key_id)
    if not cursor or not isinstance(request.prompt, Document) or request.priority != "interactive":
        return None
    # A name may be as long as headers are; and no identity of a dialect has an empty path.
    name = hashlib.sha256(cursor.encode("utf-8", "surrogatepass")).hexdigest()
    return Identity(request.tenant, f"{place} {name}", "", asker.key_id)


def _caching(cache_control: str) -> Caching:
    """RFC 9111's directives of a request; those that we have no use for change nothing."""
    directives = {each.strip().lower() for each in cache_control.split(",")}
    if "no-store" in directives:
        return "none"
    return "refresh" if "no-cache" in directives or "max-age=0" in directives else "use"


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


def _tier(receipts: Sequence[Receipt]) -> Tier:
    """Of the whole reply: `miss` as soon as anything was computed."""
    tiers = {receipt.tier for receipt in receipts}
    return tiers.pop() if len(tiers) == 1 and "continued" not in tiers else "miss"
