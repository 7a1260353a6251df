"""The routes of Ollama: generation, chats, and what it tells of its models."""

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from halfline.api.answering import Answering
from halfline.api.call import Arrival, Call
from halfline.api.dialects.json_body import read_body
from halfline.api.dialects.ollama_body import (
    GenerateBody,
    OllamaCall,
    OllamaChatBody,
    read_generate,
    read_ollama_chat,
)
from halfline.api.dialects.ollama_reply import OllamaReply, ollama_failure
from halfline.api.dialects.ollama_server import VERSION, ShowBody, card, running, tags
from halfline.api.failing import failing_with
from halfline.api.schema import BodySchema


def ollama_router(answering: Answering) -> APIRouter:
    router = APIRouter(route_class=failing_with(ollama_failure))
    serving = answering.serving

    @router.post("/api/generate", openapi_extra=BodySchema(GenerateBody, streams=OllamaReply.media_type))
    async def generate(request: Request) -> Response:
        """Complete a prompt, or at a cursor where there is a `suffix`; one JSON object per line unless `stream` is
        false.
        """
        return await answering.answer(request, _read_generate)

    @router.post("/api/chat", openapi_extra=BodySchema(OllamaChatBody, streams=OllamaReply.media_type))
    async def chat(request: Request) -> Response:
        """Write the next message of a chat, by the model's own template."""
        return await answering.answer(request, _read_chat)

    @router.post("/api/show", openapi_extra=BodySchema(ShowBody))
    async def show(request: Request) -> Response:
        """What is known of the model served here, whatever name is asked for."""
        read_body(ShowBody, await request.body())
        return JSONResponse(card(serving.loaded))

    @router.head("/api/tags", include_in_schema=False)
    @router.get("/api/tags")
    async def models() -> Response:
        """The one model served here."""
        return JSONResponse(tags(serving.loaded.model))

    @router.get("/api/ps")
    async def loaded_models() -> Response:
        """The one model in memory."""
        return JSONResponse(running(serving.loaded.model))

    @router.head("/api/version", include_in_schema=False)
    @router.get("/api/version")
    async def api_version() -> Response:
        """The version of Ollama whose dialect this is."""
        return JSONResponse({"version": VERSION})

    return router


def _read_generate(body: bytes, arrival: Arrival) -> Call:
    return _call(read_generate(body, arrival), arrival, chat=False)


def _read_chat(body: bytes, arrival: Arrival) -> Call:
    return _call(read_ollama_chat(body, arrival), arrival, chat=True)


def _call(call: OllamaCall, arrival: Arrival, *, chat: bool) -> Call:
    reply = OllamaReply(call, arrival.created, chat=chat)
    if call.request is None:
        return Call(id=arrival.call_id, requests=(), reply=reply)
    stream = reply if call.streams else None
    return Call(id=arrival.call_id, requests=(call.request,), reply=reply, stream=stream)
