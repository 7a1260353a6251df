"""The routes that embed: OpenAI's, and Ollama's two."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import ParamSpec

from fastapi import APIRouter, Request
from starlette.responses import Response

from halfline.api.answering import Answering
from halfline.api.dialects.embedding_bodies import (
    EmbeddingCall,
    EmbeddingsBody,
    OllamaEmbedBody,
    OllamaEmbeddingBody,
    embeddings_reply,
    ollama_embed_reply,
    ollama_embedding_reply,
    read_embeddings,
    read_ollama_embed,
    read_ollama_embedding,
)
from halfline.api.dialects.ollama_reply import ollama_failure
from halfline.api.failing import failing_with
from halfline.api.live import LiveRequests
from halfline.api.schema import BodySchema
from halfline.api.serving import Embeds, Loaded
from halfline.api.tenants import key_id_of, tenant_of
from halfline.errors import UnsupportedField
from halfline.pipeline.embed import Embedding

P = ParamSpec("P")

# Of one request: the queue belongs to all.
_AT_ONCE = 8


def embeddings_router(answering: Answering, live: LiveRequests) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/embeddings", openapi_extra=BodySchema(EmbeddingsBody))
    async def create_embeddings(request: Request) -> Response:
        """A vector per text: the mean of its tokens' hidden states, of length 1."""
        call, found, model = await _embedded(answering, live, request, read_embeddings)
        return await _written(embeddings_reply, call, found, model)

    return router


def ollama_embeddings_router(answering: Answering, live: LiveRequests) -> APIRouter:
    router = APIRouter(route_class=failing_with(ollama_failure))

    @router.post("/api/embed", openapi_extra=BodySchema(OllamaEmbedBody))
    async def embed(request: Request) -> Response:
        """A vector per text."""
        started = time.perf_counter()
        _, found, model = await _embedded(answering, live, request, read_ollama_embed)
        return await _written(ollama_embed_reply, found, model, time.perf_counter() - started)

    @router.post("/api/embeddings", openapi_extra=BodySchema(OllamaEmbeddingBody))
    async def embed_one(request: Request) -> Response:
        """The vector of one text."""
        _, found, _ = await _embedded(answering, live, request, read_ollama_embedding)
        return await _written(ollama_embedding_reply, found)

    return router


async def _written(write: Callable[P, bytes], *arguments: P.args, **named: P.kwargs) -> Response:
    """In a thread: a thousand vectors are megabytes."""
    return Response(await asyncio.to_thread(write, *arguments, **named), media_type="application/json")


async def _embedded(
    answering: Answering,
    live: LiveRequests,
    request: Request,
    read: Callable[[bytes, int], EmbeddingCall],
) -> tuple[EmbeddingCall, Sequence[Embedding], str]:
    """The call, a vector for each of its texts, and the model's name."""

    def understand(body: bytes, loaded: Loaded) -> EmbeddingCall:
        return read(body, loaded.model.max_context)

    call = await answering.computed(request, understand)
    loaded = answering.serving.loaded
    embedding = _embed_all(loaded.embedder, call, tenant_of(request), key_id_of(request))
    found = await live.run(embedding, request.receive)
    size = len(found[0].vector)
    if call.dimensions not in (None, size):
        raise UnsupportedField("dimensions", call.dimensions, size)
    return call, found, loaded.model.name


async def _embed_all(embedder: Embeds, call: EmbeddingCall, tenant: str, key: str) -> Sequence[Embedding]:
    """In the texts' order; the first failure ends the others and is raised as it is."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(text: str | tuple[int, ...]) -> Embedding:
        async with places:
            return await embedder.embed(text, tenant, call.user, key)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(text)) for text in call.inputs]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
