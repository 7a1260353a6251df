"""POST /v1/completions, and GET …/{id}/why and POST …/{id}/cancel of one of them."""

import dataclasses

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from halfline.api.answering import Answering
from halfline.api.call import Arrival, Call
from halfline.api.dialects.openai_body import CompletionBody, read_completion_call
from halfline.api.dialects.openai_reply import CompletionReply
from halfline.api.tenants import tenant_of
from halfline.errors import NotRunning, UnknownCompletion

_BODY_SCHEMA = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": CompletionBody.model_json_schema()}},
    }
}


def completions_router(answering: Answering) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/completions", openapi_extra=_BODY_SCHEMA)
    async def create_completion(request: Request) -> Response:
        """Complete one or more prompts, as one JSON object or as a stream of events."""
        return await answering.answer(request, _read)

    @router.post("/v1/completions/{completion_id}/cancel")
    async def cancel(request: Request, completion_id: str) -> Response:
        """End a running completion: all its choices, with what they have, and "cancelled" as the reason."""
        pipeline = answering.serving.loaded.pipeline
        if not answering.running.cancel(completion_id, tenant_of(request), pipeline):
            raise NotRunning(completion_id[:100])
        return JSONResponse({"id": completion_id, "cancelled": True})

    @router.get("/v1/completions/{completion_id}/why")
    async def why(completion_id: str) -> Response:
        """Where the milliseconds and tokens of a finished completion went."""
        receipt = answering.serving.loaded.pipeline.receipt(completion_id)
        if receipt is None:
            raise UnknownCompletion(completion_id[:100])
        return JSONResponse(
            {field.name: getattr(receipt, field.name) for field in dataclasses.fields(receipt)}
        )

    return router


def _read(body: bytes, arrival: Arrival) -> Call:
    model = arrival.loaded.model
    call = read_completion_call(body, arrival.call_id, arrival.tenant, arrival.options, model.max_context)
    reply = CompletionReply(call, model.name, arrival.created)
    return Call(id=call.id, requests=call.requests, streams=call.streams, reply=reply)
