"""The routes that complete in OpenAI's manner: completions, chats, Mistral's and Copilot's infilling; and what may be
asked of a completion by its id.
"""

import dataclasses
import time

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from halfline.api.answering import Answering
from halfline.api.call import Arrival, Call
from halfline.api.dialects.chat_body import ChatBody, read_chat
from halfline.api.dialects.chat_reply import ChatReply
from halfline.api.dialects.copilot import CopilotBody, read_copilot, token
from halfline.api.dialects.mistral import FimBody, read_fim
from halfline.api.dialects.openai_body import CompletionBody, CompletionCall, read_completion_call
from halfline.api.dialects.openai_reply import CompletionReply
from halfline.api.dialects.tabby_body import TabbyBody, TabbyReply, is_tabby, read_tabby
from halfline.api.schema import BodySchema
from halfline.api.tenants import tenant_of
from halfline.errors import NotRunning, UnknownCompletion

# One path, two dialects.
_EITHER = BodySchema(CompletionBody, TabbyBody, streams=CompletionReply.media_type)


def completions_router(answering: Answering) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/completions", openapi_extra=_EITHER)
    async def create_completion(request: Request) -> Response:
        """Complete one or more prompts, as one JSON object or as a stream of events; or, by Tabby's body, a cursor."""
        return await answering.answer(request, _read)

    @router.post("/v1/chat/completions", openapi_extra=BodySchema(ChatBody, streams=ChatReply.media_type))
    async def create_chat_completion(request: Request) -> Response:
        """Write the next message of a chat, by the model's own template."""
        return await answering.answer(request, _read_chat, id_prefix="chatcmpl")

    @router.post("/v1/fim/completions", openapi_extra=BodySchema(FimBody, streams=ChatReply.media_type))
    async def create_fim_completion(request: Request) -> Response:
        """Mistral's infilling: complete between `prompt` and `suffix`."""
        return await answering.answer(request, _read_mistral)

    @router.post(
        "/v1/engines/{engine}/completions",
        openapi_extra=BodySchema(CopilotBody, streams=CompletionReply.media_type),
    )
    async def create_engine_completion(request: Request, engine: str) -> Response:
        """Copilot's completions; any engine's name will do."""
        return await answering.answer(request, _read_copilot)

    @router.get("/copilot_internal/v2/token")
    async def copilot_token() -> Response:
        """What Copilot's client wants before its first completion, where it is sent here for that too."""
        return JSONResponse(token(int(time.time())))

    @router.post("/v1/completions/{completion_id}/cancel")
    async def cancel(request: Request, completion_id: str) -> Response:
        """End a running completion: all its choices, with what they have, and "cancelled" as the reason."""
        pipeline = answering.serving.loaded.pipeline
        if not answering.running.cancel(completion_id, tenant_of(request), pipeline):
            raise NotRunning(completion_id[:100])
        return JSONResponse({"id": completion_id, "cancelled": True})

    @router.get("/v1/completions/{completion_id}/why")
    async def why(request: Request, completion_id: str) -> Response:
        """Where the milliseconds and tokens of a finished completion went."""
        receipt = answering.serving.loaded.pipeline.receipt(completion_id)
        if receipt is None or receipt.tenant != tenant_of(request):
            raise UnknownCompletion(completion_id[:100])
        return JSONResponse(
            {field.name: getattr(receipt, field.name) for field in dataclasses.fields(receipt)}
        )

    return router


def _read(body: bytes, arrival: Arrival) -> Call:
    return _read_tabby(body, arrival) if is_tabby(body) else _read_openai(body, arrival)


def _read_openai(body: bytes, arrival: Arrival) -> Call:
    model = arrival.loaded.model
    call = read_completion_call(body, arrival.call_id, arrival.tenant, arrival.options, model.max_context)
    return _call(call, arrival)


def _read_copilot(body: bytes, arrival: Arrival) -> Call:
    return _call(read_copilot(body, arrival), arrival)


def _call(call: CompletionCall, arrival: Arrival) -> Call:
    reply = CompletionReply(call, arrival.loaded.model.name, arrival.created)
    return Call(
        id=call.id,
        requests=call.requests,
        reply=reply,
        stream=reply if call.streams else None,
        selects=call.selects,
    )


def _read_tabby(body: bytes, arrival: Arrival) -> Call:
    reply = TabbyReply(arrival.call_id)
    return Call(id=arrival.call_id, requests=(read_tabby(body, arrival),), reply=reply)


def _read_mistral(body: bytes, arrival: Arrival) -> Call:
    given, request = read_fim(body, arrival)
    reply = ChatReply(
        arrival.call_id,
        arrival.loaded.model.name,
        arrival.created,
        request.num_choices,
        includes_usage=given.stream_options is not None and bool(given.stream_options.include_usage),
    )
    return Call(id=arrival.call_id, requests=(request,), reply=reply, stream=reply if given.stream else None)


def _read_chat(body: bytes, arrival: Arrival) -> Call:
    call = read_chat(body, arrival)
    reply = ChatReply(
        call.id,
        arrival.loaded.model.name,
        arrival.created,
        call.request.num_choices,
        shows_logprobs=call.shows_logprobs,
        includes_usage=call.includes_usage,
    )
    return Call(id=call.id, requests=(call.request,), reply=reply, stream=reply if call.streams else None)
