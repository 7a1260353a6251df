"""A request that two readers might end at different places is refused, and what hides behind it is not served."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from halfline.api.patience import patient_protocol

pytestmark = pytest.mark.anyio

BODY = b'{"prompt": "x", "max_tokens": 1}'
HIDDEN = b'POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 36\r\n\r\n{"prompt": "hidden", "max_tokens": 1}'


def head(*lines: bytes) -> bytes:
    return b"\r\n".join((b"POST /v1/completions HTTP/1.1", b"host: x", *lines, b"", b""))


AMBIGUOUS = {
    "a length and chunks": head(b"content-length: 4", b"transfer-encoding: chunked") + b"0\r\n\r\n" + HIDDEN,
    "chunks and a length": head(b"transfer-encoding: chunked", b"content-length: 4") + b"0\r\n\r\n" + HIDDEN,
    "two lengths": head(b"content-length: %d" % len(BODY), b"content-length: 0") + BODY + HIDDEN,
    "two lengths in one": head(b"content-length: %d, 0" % len(BODY)) + BODY + HIDDEN,
    "a signed length": head(b"content-length: +%d" % len(BODY)) + BODY + HIDDEN,
    "a length in hexadecimals": head(b"content-length: 0x%x" % len(BODY)) + BODY + HIDDEN,
    "a length too large for anybody": head(b"content-length: 99999999999999999999999") + BODY + HIDDEN,
    "an encoding nobody knows": head(b"transfer-encoding: xchunked") + HIDDEN,
    "chunked not last": head(b"transfer-encoding: chunked, identity") + b"0\r\n\r\n" + HIDDEN,
    "a blank before the colon": head(b"transfer-encoding : chunked") + b"0\r\n\r\n" + HIDDEN,
    "a folded header": head(b"x: 1", b" transfer-encoding: chunked") + b"0\r\n\r\n" + HIDDEN,
    "a header of two lines": head(b"x: 1\rtransfer-encoding: chunked") + b"0\r\n\r\n" + HIDDEN,
    "a chunk of a wrong size": head(b"transfer-encoding: chunked") + b"2\r\n{}{}\r\n0\r\n\r\n" + HIDDEN,
    "a chunk of a negative size": head(b"transfer-encoding: chunked") + b"-1\r\n\r\n" + HIDDEN,
    "a head without an end": b"POST /v1/completions HTTP/1.1\nhost: x\ncontent-length: 0\n\r" + HIDDEN,
}


@pytest.fixture
def raw(on_stage: Callable[..., Any]) -> Callable[..., Any]:
    """`async with raw() as (stage, say)`: `say(bytes)` is what a connection answers until it is closed."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Any, Callable[[bytes], Any]]]:
        async with on_stage() as stage:
            config = uvicorn.Config(
                stage.app,
                port=0,
                http=patient_protocol(0.5, 30.0, 100),
                lifespan="off",
                log_config=None,
                timeout_keep_alive=1,
            )
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server.serve())
            while not server.started:
                await asyncio.sleep(0.01)
            port = server.servers[0].sockets[0].getsockname()[1]

            async def say(said: bytes) -> bytes:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(said)
                async with asyncio.timeout(30):
                    heard = await reader.read()
                writer.close()
                return heard

            yield stage, say
            server.should_exit = True
            await serving

    return opened


async def test_an_ambiguous_end_is_refused_and_nothing_behind_it_is_served(raw) -> None:
    async with raw() as (stage, say):
        for name, said in AMBIGUOUS.items():
            heard = await say(said)
            assert heard.startswith(b"HTTP/1.1 4"), (name, heard[:200])
            assert [request.prompt for request in stage.pipeline.requests] == [], name
        plain = head(b"content-length: %d" % len(BODY)) + BODY
        assert (await say(plain)).startswith(b"HTTP/1.1 200")
