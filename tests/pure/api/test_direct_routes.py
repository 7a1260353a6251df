"""What is answered without the framework is what the framework answers."""

import re
from collections.abc import Callable

import pytest
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from halfline.api import direct_routes
from halfline.api.direct_routes import is_direct

pytestmark = pytest.mark.anyio

CALLS = [
    ("POST", "/v1/completions", {"prompt": "x", "max_tokens": 2}),
    ("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1, "stream": True}),
    ("POST", "/v1/completions", {"prompt": "x", "max_tokens": 3, "stream": True}),
    ("POST", "/v1/completions", {"prompt": 5}),
    ("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2}),
    ("POST", "/infill", {"input_prefix": "x", "input_suffix": "", "n_predict": 2}),
    ("POST", "/api/generate", {"model": "m", "prompt": 7}),
    ("POST", "/v1/completions/nobody/cancel", {}),
    ("PUT", "/v1/completions", {}),
    ("POST", "/v1/nothing", {}),
]


def _said(text: str) -> str:
    """Without what is another one each time."""
    text = re.sub(r'"(id|created|created_at|total_duration|eval_duration)": ?("[^"]*"|\d+)', r'"\1"', text)
    return re.sub(r'"timings": ?\{[^}]*\}', '"timings"', text)


async def _replies(on_stage: Callable[..., object]) -> list[tuple[object, ...]]:
    replies: list[tuple[object, ...]] = []
    async with on_stage() as stage:
        for method, path, body in CALLS:
            reply = await stage.client.request(method, path, json=body)
            kind = reply.headers.get("content-type"), reply.headers.get("x-cache")
            replies.append((path, reply.status_code, kind, _said(reply.text)))
        counted = (await stage.client.get("/metrics")).text
    routes = sorted(line for line in counted.splitlines() if line.startswith("halfline_requests_total{"))
    return [*replies, *((each,) for each in routes if "/health" not in each)]


async def test_the_same_is_answered_and_counted_with_the_framework_and_without(
    on_stage: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = await _replies(on_stage)
    monkeypatch.setattr(direct_routes, "is_direct", lambda route: False)
    assert await _replies(on_stage) == direct


def test_an_endpoint_that_wants_more_than_the_request_is_left_to_the_framework() -> None:
    router = APIRouter()

    @router.post("/direct")
    async def direct(request: Request) -> JSONResponse: ...

    @router.post("/items/{item}")
    async def with_a_path(request: Request, item: str) -> JSONResponse: ...

    @router.post("/query")
    async def with_a_query(request: Request, much: int = 1) -> JSONResponse: ...

    @router.post("/dictionary", response_model=None)
    async def without_a_response(request: Request) -> dict[str, int]: ...

    @router.post("/thread")
    def in_a_thread(request: Request) -> JSONResponse: ...

    assert [route.path for route in router.routes if is_direct(route)] == ["/direct"]
