"""A request that two readers might end at different places is refused, and what hides behind it is not served."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import httptools
import pytest
import uvicorn

from halfline.api.declined_upgrades import DecliningParser
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
    """`async with raw() as (stage, say)`: `say(bytes, …)` is what a connection answers until it is closed."""

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

            async def say(*pieces: bytes) -> bytes:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                for piece in pieces:
                    writer.write(piece)
                    await asyncio.sleep(0.001)
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


OFFER = (b"connection: Upgrade, HTTP2-Settings", b"upgrade: h2c", b"http2-settings: AAMAAABkAAQAAP__")


@pytest.mark.parametrize("cuts", [(), (1,), (-1,), (20, 150), tuple(range(1, 240, 7))])
async def test_an_offer_of_another_protocol_takes_no_body_away_and_hides_no_request(raw, cuts) -> None:
    """Java's HTTP client makes one with its first request."""
    length = b"content-length: %d" % len(HIDDEN)
    async with raw() as (stage, say):
        whole = head(*OFFER, length) + HIDDEN + head(b"content-length: %d" % len(BODY)) + BODY
        ends = [each % len(whole) for each in cuts]
        pieces = [whole[start:stop] for start, stop in pairwise([0, *ends, len(whole)])]
        heard = await say(*pieces)
        # HIDDEN is no JSON, and all of it is the body.
        assert re.findall(rb"HTTP/1.1 (\d+)", heard) == [b"400", b"200"]
        assert [request.prompt for request in stage.pipeline.requests] == ["x"]


async def test_an_offer_is_declined_with_an_answer_in_whatever_form_it_comes(raw) -> None:
    chunked = head(*OFFER, b"transfer-encoding: chunked") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    socket = head(b"connection: upgrade", b"Upgrade: websocket", b"content-length: %d" % len(BODY)) + BODY
    async with raw() as (stage, say):
        heard = await say(*[chunked + socket] * 40)
        assert heard.count(b"HTTP/1.1 200 OK") == len(stage.pipeline.requests) == 80


class _Heads:
    """What a parser tells of the messages it reads."""

    def __init__(self) -> None:
        self.urls: list[bytes] = []

    def on_url(self, url: bytes) -> None:
        self.urls.append(url)


def test_a_tunnel_is_no_offer_and_is_not_read_again_for_ever() -> None:
    heads = _Heads()
    parser = httptools.HttpRequestParser(heads)
    declining = DecliningParser(parser, lambda: b"CONNECT a.b:443 HTTP/1.1\r\n\r\n")
    with pytest.raises(httptools.HttpParserUpgrade):
        declining.feed_data(b"CONNECT a.b:443 HTTP/1.1\r\nhost: a\r\n\r\nabc")
    assert heads.urls == [b"a.b:443"]
