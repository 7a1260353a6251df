"""POST /v1/completions, and GET …/{id}/why and POST …/{id}/cancel of one of them.

Knows the order of things: read, understand, generate while the client listens, account, reply. What fields mean
is the dialect's, what errors mean is `failures`'.
"""

import asyncio
import dataclasses
import time
import uuid
from collections.abc import Sequence

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from halfline.api.accounts import account
from halfline.api.completion_stream import SUPERSEDED, CompletionStream
from halfline.api.dialects.openai_body import CompletionBody, CompletionCall, read_completion_call
from halfline.api.dialects.openai_reply import ChunkWriter, completion_object, superseded
from halfline.api.live import LiveRequests
from halfline.api.observed import REQUEST_ID
from halfline.api.options import ApiOptions
from halfline.api.running import RunningCalls
from halfline.api.serving import Loaded, Pipeline, Serving
from halfline.errors import NotRunning, UnknownCompletion
from halfline.request import Completion, Receipt
from halfline.telemetry.metrics import Metrics

# Nobody is asked for a key yet: all who reach the port are one tenant.
_TENANT = "local"

# Understanding a larger body takes longer than a keystroke's reply should wait for it.
_INLINE_BYTES = 1 << 16

_BODY_SCHEMA = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": CompletionBody.model_json_schema()}},
    }
}


def completions_router(
    serving: Serving, live: LiveRequests, metrics: Metrics, options: ApiOptions
) -> APIRouter:
    router = APIRouter()
    running = RunningCalls()
    reading = asyncio.Lock()  # one large body at a time: it becomes many times its size

    @router.post("/v1/completions", openapi_extra=_BODY_SCHEMA)
    async def create_completion(request: Request) -> Response:
        """Complete one or more prompts, as one JSON object or as a stream of events."""
        body = await request.body()
        loaded = serving.loaded
        call_id = f"cmpl-{uuid.uuid4().hex}"
        max_context = loaded.model.max_context
        if len(body) <= _INLINE_BYTES:
            call = read_completion_call(body, call_id, _TENANT, options, max_context)
        else:
            async with reading:
                call = await asyncio.to_thread(
                    read_completion_call, body, call_id, _TENANT, options, max_context
                )
        created = int(time.time())

        def ended() -> None:
            running.left(call)
            account(call, loaded.pipeline, metrics)

        running.entered(call, request.scope[REQUEST_ID])
        if call.streams:
            writer = ChunkWriter(call, loaded.model.name, created)
            stream = CompletionStream(call, writer, loaded, live, ended)
            await stream.start(request.receive)
            return stream
        try:
            completions = await live.run(_complete_all(loaded.pipeline, call), request.receive)
        finally:
            ended()
        _check_whole(completions, loaded)
        reply = completion_object(call, completions, loaded.model.name, created)
        timing = _server_timing([completion.receipt for completion in completions])
        headers = {"X-Cache": "miss", "Server-Timing": timing}
        if superseded(completions):
            headers[SUPERSEDED] = "1"
        return JSONResponse(reply, headers=headers)

    @router.post("/v1/completions/{completion_id}/cancel")
    async def cancel(completion_id: str) -> Response:
        """End a running completion: all its choices, with what they have, and "cancelled" as the reason."""
        if not running.cancel(completion_id, _TENANT, serving.loaded.pipeline):
            raise NotRunning(completion_id[:100])
        return JSONResponse({"id": completion_id, "cancelled": True})

    @router.get("/v1/completions/{completion_id}/why")
    async def why(completion_id: str) -> Response:
        """Where the milliseconds and tokens of a finished completion went."""
        receipt = serving.loaded.pipeline.receipt(completion_id)
        if receipt is None:
            raise UnknownCompletion(completion_id[:100])
        return JSONResponse(
            {field.name: getattr(receipt, field.name) for field in dataclasses.fields(receipt)}
        )

    return router


async def _complete_all(pipeline: Pipeline, call: CompletionCall) -> list[Completion]:
    """All prompts at once; the first failure ends the others and is raised as it is."""
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


def _server_timing(receipts: Sequence[Receipt]) -> str:
    """The slowest prompt of each phase, in milliseconds; shown by browsers' and editors' network views."""
    phases = {
        "queue": max(receipt.queue_ms for receipt in receipts),
        "prefill": max(receipt.prefill_ms for receipt in receipts),
        "decode": max(receipt.decode_ms for receipt in receipts),
        "total": max(receipt.total_ms for receipt in receipts),
    }
    return ", ".join(f"{name};dur={duration:.2f}" for name, duration in phases.items())
