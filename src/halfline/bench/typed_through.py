"""What a keystroke costs whose answer is known: processor time of the server, from the first byte that it reads of the
request to the last that it writes of the reply, which is streamed as editors want it.

Somebody types what the server suggested, character by character. No model runs for those keystrokes, so all there is
to measure is Python: HTTP, the body, the document's window, finding and reading the known tokens, the reply.

Processor time of the event loop's thread: what else the machine does matters, but only for its caches. Beside it,
interleaved, what the same server takes to say `GET /v1/models`: the HTTP framework's own part.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle

import uvicorn

from halfline.api.app import create_app
from halfline.api.options import ApiOptions
from halfline.api.serving import Loaded
from halfline.bench.in_process import until_healthy
from halfline.bench.on_the_wire import Wire, WireReply

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
    # The event loop that the server runs on.
    with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:
        return runner.run(_measure(load, texts, count))


async def _measure(load: Callable[[], Loaded], texts: Sequence[str], count: int) -> Keystrokes:
    app = create_app(load, ApiOptions())
    typed_ms: list[float] = []
    empty_ms: list[float] = []
    num_others = 0
    async with app.router.lifespan_context(app):
        await until_healthy(app)
        wire = Wire(app)
        for number, text in enumerate(cycle(texts)):
            before, behind = _cut(text, number)
            reply = await _ask(wire, before, behind)
            suggestion = _text_of(reply)
            for end in range(1, len(suggestion)):
                reply = await _ask(wire, before + suggestion[:end], behind)
                if reply.headers["x-cache"] == "typed":
                    typed_ms.append(reply.thread_ms)
                    empty_ms.append((await wire.ask("GET", "/v1/models")).thread_ms)
                else:
                    num_others += 1
            if len(typed_ms) >= count:
                wire.close()
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


def _text_of(reply: WireReply) -> str:
    """From the events of a stream."""
    events = [line[6:] for line in reply.body.splitlines() if line.startswith(b"data: {")]
    return "".join(json.loads(event)["choices"][0]["text"] for event in events)


async def _ask(wire: Wire, prefix: str, suffix: str) -> WireReply:
    body = {
        "prompt": prefix,
        "suffix": suffix,
        "max_tokens": 24,
        "stop": "\n",
        "stream": True,
        "user": "bench",
        "metadata": {"path": _PATH},
    }
    return await wire.ask("POST", "/v1/completions", json.dumps(body).encode())
