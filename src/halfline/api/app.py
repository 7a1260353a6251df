"""The HTTP application: routes, layers around them, and the model's life beside them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from http import HTTPStatus
from importlib.metadata import version

from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Match
from starlette.types import Scope

from halfline.api.admission import Admission
from halfline.api.answering import Answering
from halfline.api.body import BodyLimits
from halfline.api.completions import completions_router
from halfline.api.direct_routes import DirectRoutes
from halfline.api.embeddings import embeddings_router, ollama_embeddings_router
from halfline.api.events import events_router
from halfline.api.failing import is_ollama, worded
from halfline.api.failures import failure_response, plain_failure
from halfline.api.fragments import fragments_router
from halfline.api.gate import FOR_ALL, Gate
from halfline.api.keys.key_ring import KeyRing
from halfline.api.live import LiveRequests
from halfline.api.llama import llama_router
from halfline.api.local_names import LocalNames
from halfline.api.observed import Observed
from halfline.api.ollama import ollama_router
from halfline.api.options import ApiOptions
from halfline.api.paths import PlainPaths
from halfline.api.schema import DescribedApp
from halfline.api.serving import Loaded, Serving
from halfline.api.status import status_router
from halfline.api.tabby import tabby_router
from halfline.api.tasks import tasks_router
from halfline.context.templates.outcomes import TaskOutcomes
from halfline.errors import HalflineError
from halfline.telemetry.feedback import Feedback
from halfline.telemetry.metrics import Metrics

Beside = Callable[[Answering, Admission], AbstractAsyncContextManager[None]]
"""What is served on another port by the same parts, for as long as the application lives."""


def create_app(
    load: Callable[[], Loaded],
    options: ApiOptions,
    live: LiveRequests | None = None,
    keys: KeyRing | None = None,
    *,
    beside: Sequence[Beside] = (),
    greet: Callable[[], None] | None = None,
    local: LocalNames | None = None,
) -> FastAPI:
    """An application that answers at once, and serves completions once `load`, run in a thread, returned.

    `live` lets the caller end running requests before the server closes. `keys` None: there are none. `greet` is called
    once, from the moment on that completions are served. `local` says whom it answers as long as there are no keys;
    None: everybody.
    """
    metrics = Metrics()
    serving = Serving(load, metrics)
    live = live or LiveRequests()
    answering = Answering(serving, live, metrics, options)
    admission = Admission(keys or KeyRing(None, required=options.require_keys))

    async def come_up() -> None:
        if await serving.load() and greet is not None:
            greet()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as ports:
            for each in beside:
                await ports.enter_async_context(each(answering, admission))
            coming_up = asyncio.ensure_future(come_up())
            yield
        live.end_all()
        # A load cannot be interrupted, and what it returns must be closed.
        await coming_up
        await answering.accounts.close()
        await serving.close()

    # No documentation pages: they load scripts from elsewhere. /openapi.json stays.
    # No redirects of a trailing slash either: few clients send their body again.
    app = DescribedApp(
        keyless=FOR_ALL,
        title="halfline",
        version=version("halfline"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_exception_handler(HalflineError, _on_halfline_error)
    outcomes = TaskOutcomes()
    metrics.watch_tasks(outcomes.all)
    routers = (
        completions_router(answering),
        llama_router(answering),
        ollama_router(answering),
        tabby_router(answering),
        embeddings_router(answering, live),
        ollama_embeddings_router(answering, live),
        fragments_router(answering),
        tasks_router(answering, outcomes),
        events_router(answering, Feedback(), metrics, outcomes),
        status_router(serving, metrics),
    )
    app.add_exception_handler(HTTPException, partial(_on_http_error, routers))
    for router in routers:
        app.include_router(router)
    # The last added is the outermost.
    app.add_middleware(DirectRoutes, routers=routers)
    app.add_middleware(
        BodyLimits, max_bytes=options.max_body_bytes, timeout_s=options.body_timeout_s, live=live
    )
    respond = partial(worded, routers)
    app.add_middleware(PlainPaths, respond=respond)
    app.add_middleware(Gate, admission=admission, respond=respond, local=local)
    if options.cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=options.cors_origins, allow_methods=["*"], allow_headers=["*"]
        )
    app.add_middleware(Observed, metrics=metrics)
    return app


async def _on_halfline_error(request: Request, error: Exception) -> Response:
    return failure_response(error)


async def _on_http_error(routers: Sequence[APIRouter], request: Request, error: Exception) -> Response:
    """Unknown paths and methods, in the same shape as every other failure."""
    assert isinstance(error, HTTPException)
    sentence = f"{error.detail}: {request.method} {request.url.path[:200]}"
    response = (
        JSONResponse({"error": sentence}, error.status_code)
        if is_ollama(request.url.path)
        else plain_failure(error.status_code, sentence)
    )
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = ", ".join(sorted(_methods(routers, request.scope)))
    return response


def _methods(routers: Sequence[APIRouter], scope: Scope) -> set[str]:
    """What a path may be asked by: the framework tells of one route of several."""
    return {
        method
        for router in routers
        for route in router.routes
        if isinstance(route, APIRoute) and route.matches(scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
