"""Asks an application without a socket: what is measured is the server's own work."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.types import Message, Scope


@dataclass(frozen=True, slots=True)
class Reply:
    """`thread_ms` are the event loop's thread's, `wall_ms` the clock's. Names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    thread_ms: float
    wall_ms: float

    @property
    def cache(self) -> str:
        """Which tier answered."""
        return self.headers.get("x-cache", "")


async def call(
    app: FastAPI, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> Reply:
    """The whole reply; the client stays until it is there."""
    given = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8117),
    }
    sent: list[Message] = []
    waiting = asyncio.Event()
    messages = _messages(body, waiting)

    async def receive() -> Message:
        return await anext(messages)

    async def send(message: Message) -> None:
        sent.append(message)

    thread, wall = time.thread_time(), time.perf_counter()
    await app(scope, receive, send)
    thread_ms, wall_ms = (time.thread_time() - thread) * 1e3, (time.perf_counter() - wall) * 1e3
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    said = b"".join(each.get("body", b"") for each in sent)
    return Reply(sent[0]["status"], found, said, thread_ms, wall_ms)


async def until_healthy(app: FastAPI) -> None:
    while (await call(app, "GET", "/health")).status != 200:
        await asyncio.sleep(0.05)


async def _messages(body: bytes, waiting: asyncio.Event) -> AsyncIterator[Message]:
    """The request's body, then nothing: the client stays."""
    yield {"type": "http.request", "body": body, "more_body": False}
    await waiting.wait()
