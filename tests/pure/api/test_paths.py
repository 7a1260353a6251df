"""Paths that climb, and names in them that are templates or files, reach nothing."""

from typing import Any
from urllib.parse import unquote

import pytest
from starlette.types import Message

pytestmark = pytest.mark.anyio

CLIMBING = (
    "..",
    "../../etc/passwd",
    "%2e%2e/%2e%2e/etc/passwd",
    "..%2f..%2f..%2fetc%2fpasswd",
    "a/../../b",
    "./a",
    "..%5c..%5cboot.ini",
    "a%00.py",
    "a%0d%0ax: 1",
    "/etc/passwd",
)


async def status(app: Any, method: str, sent_path: str) -> int:
    """As a server calls the application; HTTP clients resolve such paths before they send them."""
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(sent_path),
        "raw_path": sent_path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [],
        "client": ("127.0.0.1", 1),
        "server": ("halfline", 80),
    }
    statuses = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Message) -> None:
        statuses.append(message.get("status"))

    await app(scope, receive, send)
    return statuses[0]


@pytest.mark.parametrize("name", CLIMBING)
async def test_a_path_that_climbs_or_is_ambiguous_is_a_400_on_every_route(on_stage, name: str) -> None:
    async with on_stage() as stage:
        for path, operations in stage.app.openapi()["paths"].items():
            place = path.partition("{")[0].rstrip("/")
            assert await status(stage.app, next(iter(operations)).upper(), f"{place}/{name}") == 400, place
        assert await status(stage.app, "GET", f"/{name}") == 400
        assert stage.pipeline.requests == []


@pytest.mark.parametrize("name", ["{{7*7}}", "{% include 'x' %}", "${7*7}", "%s%n", "\U0001f9d1"])
async def test_a_name_is_a_name_whatever_is_in_it(on_stage, name: str) -> None:
    async with on_stage() as stage:
        for method, path in (
            ("GET", "/v1/completions/{}/why"),
            ("POST", "/v1/completions/{}/cancel"),
            ("POST", "/slots/{}"),
            ("GET", "/{}"),
        ):
            reply = await stage.client.request(method, path.format(name.replace("%", "%25")))
            assert reply.status_code in (400, 404) and "49" not in reply.text, path
