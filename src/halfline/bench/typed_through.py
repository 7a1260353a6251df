"""What a keystroke costs whose answer is known: processor time of the server, from the request's body to its reply.

Somebody types what the server suggested, character by character. No model runs for those keystrokes, so all there is
to measure is Python: reading the body, the document's window, finding and reading the known tokens, writing the reply.

Processor time of the event loop's thread: what else the machine does matters, but only for its caches. Beside it,
interleaved, what the same server takes to say `GET /v1/models`: the HTTP framework's own part.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from itertools import cycle

from fastapi import FastAPI
from starlette.types import Message, Scope

from halfline.api.app import create_app
from halfline.api.options import ApiOptions
from halfline.api.serving import Loaded

_PATH = "src/app.py"


@dataclass(frozen=True, slots=True)
class Keystrokes:
    """Processor milliseconds of each keystroke that was typed through, and of as many empty requests; how many
    keystrokes were not typed through.
    """

    typed_ms: tuple[float, ...]
    empty_ms: tuple[float, ...]
    num_others: int


def measure_typed_through(load: Callable[[], Loaded], texts: Sequence[str], count: int) -> Keystrokes:
    """At least `count` keystrokes typed through, at places all over the texts."""
    return asyncio.run(_measure(load, texts, count))


async def _measure(load: Callable[[], Loaded], texts: Sequence[str], count: int) -> Keystrokes:
    app = create_app(load, ApiOptions())
    typed_ms: list[float] = []
    empty_ms: list[float] = []
    num_others = 0
    async with app.router.lifespan_context(app):
        while not await _healthy(app):
            await asyncio.sleep(0.05)
        for number, text in enumerate(cycle(texts)):
            before, behind = _cut(text, number)
            reply, _ = await _ask(app, before, behind)
            suggestion = _text_of(reply)
            for end in range(1, len(suggestion)):
                reply, spent_ms = await _ask(app, before + suggestion[:end], behind)
                if reply.cache == "typed":
                    typed_ms.append(spent_ms)
                    empty_ms.append((await _call(app, "GET", "/v1/models", b""))[1])
                else:
                    num_others += 1
            if len(typed_ms) >= count:
                return Keystrokes(tuple(typed_ms), tuple(empty_ms), num_others)
    raise AssertionError("cycle() has no end")


def _cut(text: str, number: int) -> tuple[str, str]:
    """A cursor behind the first word of some line."""
    lines = text.splitlines(keepends=True)
    line = number * 37 % len(lines)
    words = lines[line].split(maxsplit=1)
    place = lines[line].find(words[0]) + len(words[0]) if words else 0
    before = "".join(lines[:line]) + lines[line][:place]
    return before, "".join(lines[line + 1 :])


@dataclass(frozen=True, slots=True)
class _Reply:
    cache: str
    body: bytes


def _text_of(reply: _Reply) -> str:
    text: str = json.loads(reply.body)["choices"][0]["text"]
    return text


async def _healthy(app: FastAPI) -> bool:
    reply, _ = await _call(app, "GET", "/health", b"")
    return b'"ok"' in reply.body


async def _ask(app: FastAPI, prefix: str, suffix: str) -> tuple[_Reply, float]:
    body = {
        "prompt": prefix,
        "suffix": suffix,
        "max_tokens": 24,
        "stop": "\n",
        "user": "bench",
        "metadata": {"path": _PATH},
    }
    return await _call(app, "POST", "/v1/completions", json.dumps(body).encode())


async def _call(app: FastAPI, method: str, path: str, body: bytes) -> tuple[_Reply, float]:
    """The reply, and the milliseconds of this thread that it took."""
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
        "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())],
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

    started = time.thread_time()
    await app(scope, receive, send)
    spent_ms = (time.thread_time() - started) * 1e3
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return _Reply(headers.get("x-cache", ""), b"".join(each.get("body", b"") for each in sent)), spent_ms


async def _messages(body: bytes, waiting: asyncio.Event) -> AsyncIterator[Message]:
    """The request's body, then nothing: the client stays."""
    yield {"type": "http.request", "body": body, "more_body": False}
    await waiting.wait()
