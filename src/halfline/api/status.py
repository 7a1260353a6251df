"""What a client, a load balancer or Prometheus asks about the server itself."""

import asyncio
import time

from fastapi import APIRouter
from starlette.responses import JSONResponse, PlainTextResponse, Response

from halfline.api.failures import health_failure
from halfline.api.serving import ServedModel, Serving
from halfline.errors import HalflineError
from halfline.telemetry.metrics import CONTENT_TYPE, Metrics


def status_router(serving: Serving, metrics: Metrics) -> APIRouter:
    router = APIRouter()
    started = int(time.time())

    @router.head("/", include_in_schema=False)
    @router.get("/", include_in_schema=False)
    async def root() -> Response:
        """What Ollama's clients ask first: whether anybody is there."""
        return PlainTextResponse("halfline is running\n")

    @router.head("/health", include_in_schema=False)
    @router.get("/health")
    async def health() -> Response:
        """200 once completions are served, 503 while the model loads and after the engine failed."""
        try:
            _ = serving.loaded
        except HalflineError as error:
            return health_failure(error)
        return JSONResponse({"status": "ok"})

    @router.head("/v1/models", include_in_schema=False)
    @router.get("/v1/models")
    async def models() -> Response:
        """The one model served here; whatever name a client sends, this one answers."""
        return JSONResponse({"object": "list", "data": [_card(serving.loaded.model, started)]})

    @router.get("/v1/models/{model:path}")
    async def model_card(model: str) -> Response:
        """The model served here, by whatever name."""
        return JSONResponse(_card(serving.loaded.model, started))

    @router.head("/metrics", include_in_schema=False)
    @router.get("/metrics", response_class=PlainTextResponse)
    async def exposition() -> Response:
        """Everything that is counted, in Prometheus's text format."""
        await asyncio.sleep(0)  # what has just ended is counted first
        return Response(metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    return router


def _card(model: ServedModel, created: int) -> dict[str, object]:
    return {
        "id": model.name,
        "object": "model",
        "created": created,
        "owned_by": "halfline",
        "max_model_len": model.max_context,
        "infill_format": model.infill_format,
        "infill_order": model.infill_order,
        "infill_trial": dict(model.infill_trial),
    }
