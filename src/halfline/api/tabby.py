"""The routes of Tabby's agent beside completions."""

from importlib.metadata import version

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from halfline.api.answering import Answering
from halfline.api.dialects.tabby_server import SETTING, health
from halfline.api.failures import health_failure
from halfline.errors import HalflineError


def tabby_router(answering: Answering) -> APIRouter:
    router = APIRouter()

    @router.head("/v1/health", include_in_schema=False)
    @router.post("/v1/health", include_in_schema=False)
    @router.get("/v1/health")
    async def state() -> Response:
        """Tabby's fields with llama-server's `status`; 503 while the model loads and after the engine failed."""
        try:
            loaded = answering.serving.loaded
        except HalflineError as error:
            return health_failure(error)
        return JSONResponse(health(loaded.model, version("halfline")))

    @router.get("/v1beta/server_setting")
    async def server_setting() -> Response:
        """That nobody else is told what is typed here."""
        return JSONResponse(SETTING)

    return router
