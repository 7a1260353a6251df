"""Connections that say too little are closed, and meanwhile cost the others nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from halfline.api.request_head import protocol_with_head_timeout

pytestmark = pytest.mark.anyio
PATIENCE_S = 30.0


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Says how long the body was; to /slowly in two pieces, with a pause between them."""
    num_bytes, more = 0, True
    while more:
        message = await receive()
        num_bytes += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/slowly":
        await send({"type": "http.response.body", "body": b"about ", "more_body": True})
        await asyncio.sleep(0.5)
    await send({"type": "http.response.body", "body": str(num_bytes).encode()})


@asynccontextmanager
async def serving(timeout_s: float) -> AsyncIterator[int]:
    """The port of a server of this event loop."""
    config = uvicorn.Config(
        answer,
        port=0,
        http=protocol_with_head_timeout(timeout_s),
        lifespan="off",
        log_config=None,
        timeout_keep_alive=60,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(PATIENCE_S):
        while not server.started:
            await asyncio.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
        server.should_exit = True
        await task


async def trickle(port: int) -> bytes:
    """What a client gets to read that sends a byte of an endless header every now and then."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heard = asyncio.create_task(reader.read())
    writer.write(b"GET / HTTP/1.1\r\nx: ")
    while not heard.done():
        try:
            writer.write(b"y")
            await writer.drain()
        except ConnectionError:
            break
        await asyncio.sleep(0.05)
    writer.close()
    try:
        return await heard
    except ConnectionResetError:
        return b""


async def test_two_hundred_heads_that_trickle_are_given_up_and_disturb_nobody() -> None:
    async with serving(timeout_s=1.0) as port, httpx.AsyncClient() as client:
        slow = [asyncio.create_task(trickle(port)) for _ in range(200)]
        await asyncio.sleep(0.2)
        for _ in range(5):
            reply = await client.post(f"http://127.0.0.1:{port}/", content=b"12345")
            assert (reply.status_code, reply.text) == (200, "5")
        heard = await asyncio.gather(*slow)
        assert {said.split(b"\r\n")[0] for said in heard} <= {b"HTTP/1.1 408 Request Timeout", b""}


@pytest.mark.parametrize("said", [b"", b"\r\n", b"POST"])
async def test_a_connection_that_stops_before_its_request_is_whole_is_closed(said: bytes) -> None:
    async with serving(timeout_s=0.1) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_a_second_request_has_as_long_from_its_first_byte_on() -> None:
    async with serving(timeout_s=0.3) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for pause_s in (0.0, 0.6):  # longer than a head may take, but nothing has begun
            await asyncio.sleep(pause_s)
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            assert await reader.readuntil(b"0\r\n\r\n")
        writer.write(b"GET / HT")
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_a_body_and_an_answer_may_take_longer_than_a_head() -> None:
    async def slowly() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"1"
            await asyncio.sleep(0.1)

    async with serving(timeout_s=0.2) as port, httpx.AsyncClient() as client:
        reply = await client.post(f"http://127.0.0.1:{port}/slowly", content=slowly())
        assert reply.text == "about 5"


async def test_an_answer_is_not_cut_because_half_of_the_next_request_is_there() -> None:
    async with serving(timeout_s=0.1) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /slowly HTTP/1.1\r\nhost: x\r\n\r\nGET /")
        said = await reader.read()
        assert said.startswith(b"HTTP/1.1 200 ")
        assert b"about " in said and b"408" in said.split(b"about ")[1]
        writer.close()
