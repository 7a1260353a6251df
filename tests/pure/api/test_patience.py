"""Connections that say too little, or do not read, are closed, and meanwhile cost the others nothing."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from halfline.api.patience import MAX_HEAD_BYTES, patient_protocol

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
async def serving(
    timeout_s: float = PATIENCE_S,
    *,
    send_timeout_s: float = PATIENCE_S,
    max_connections: int = 1000,
    app: ASGIApp = answer,
) -> AsyncIterator[int]:
    """The port of a server of this event loop."""
    config = uvicorn.Config(
        app,
        port=0,
        http=patient_protocol(timeout_s, send_timeout_s, max_connections),
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


async def test_two_hundred_heads_that_trickle_are_given_up_and_disturb_nobody(on_stage) -> None:
    async with (
        on_stage() as stage,
        serving(timeout_s=1.0, app=stage.app) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        slow = [asyncio.create_task(trickle(port)) for _ in range(200)]
        await asyncio.sleep(0.2)
        for _ in range(5):
            reply = await client.post("/v1/completions", json={"prompt": "y", "max_tokens": 3})
            assert (reply.status_code, reply.json()["choices"][0]["text"]) == (200, "abc")
        heard = await asyncio.gather(*slow)
        assert {said.split(b"\r\n")[0] for said in heard} <= {b"HTTP/1.1 408 Request Timeout", b""}
        assert len(stage.pipeline.requests) == 5


async def test_of_more_connections_than_there_may_be_those_that_ask_for_nothing_go(on_stage) -> None:
    """First who has not said what it wants, then who pauses; who is being answered stays, and then the new one goes."""
    async with on_stage() as stage, serving(app=stage.app, max_connections=3) as port:

        async def connected(said: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            return reader, writer

        async def heard(reader: asyncio.StreamReader) -> bytes:
            async with asyncio.timeout(PATIENCE_S):
                return await reader.readuntil(b"\r\n\r\n")

        async def dropped(reader: asyncio.StreamReader) -> bool:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    return b"HTTP/1.1" not in await reader.read()
            except ConnectionResetError:
                return True

        pausing = await connected(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await heard(pausing[0])).startswith(b"HTTP/1.1 200 ")
        trickling = [await connected(b"GET /he") for _ in range(2)]
        await asyncio.sleep(0.05)
        stage.pipeline.gate = asyncio.Event()
        running = []
        for loser in (*trickling, pausing):
            running.append(await connected(completion(2, stream=False)))
            assert await dropped(loser[0])
            while len(stage.pipeline.requests) < len(running):
                await asyncio.sleep(0.01)
        late = await connected(b"")
        refusal = await heard(late[0])
        assert refusal.startswith(b"HTTP/1.1 503 ") and b"retry-after: 1" in refusal
        stage.pipeline.gate.set()
        for reader, _ in running:
            assert (await heard(reader)).startswith(b"HTTP/1.1 200 ")
        for _, writer in (*trickling, pausing, *running, late):
            writer.close()


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


@pytest.mark.parametrize("line", [b"x" * 1000, b"x: 1\r\n" * 100], ids=["a line", "lines"])
async def test_a_head_without_an_end_is_refused_when_it_is_too_large(line: bytes) -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\ny: ")
        heard = asyncio.create_task(reader.read())
        num_bytes = 0
        while not heard.done():
            try:
                writer.write(line)
                await writer.drain()
            except ConnectionError:
                break
            num_bytes += len(line)
            await asyncio.sleep(0)
            assert num_bytes < 100 * MAX_HEAD_BYTES
        writer.close()
        try:
            assert (await heard).startswith(b"HTTP/1.1 431 ")
        except ConnectionResetError:  # it went on saying what nobody read
            pass


async def test_large_bodies_and_many_requests_of_a_connection_are_no_large_head() -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b"x" * (4 * MAX_HEAD_BYTES)
        request = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        filled = b"GET / HTTP/1.1\r\nhost: x\r\ny: %b\r\n\r\n" % (b"z" * (MAX_HEAD_BYTES // 2))
        heard = asyncio.create_task(reader.read())
        for said in (
            request,
            filled[:30],
            filled[30:],
            filled,
            request + filled[:99],
            filled[99:] + 2 * filled,
        ):
            writer.write(said)
            await asyncio.sleep(0.01)
        writer.write_eof()
        assert (await heard).count(b"HTTP/1.1 200 ") == 7
        writer.close()


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads nothing, and to /last ends the connection."""
    headers = [(b"connection", b"close")] if scope["path"] == "/last" else []
    await send(
        {"type": "http.response.start", "status": 413, "headers": [*headers, (b"content-length", b"1")]}
    )
    await send({"type": "http.response.body", "body": b"."})


@pytest.mark.parametrize("path", [b"/", b"/last"])
async def test_who_says_more_than_is_read_hears_the_answer_all_the_same(path: bytes) -> None:
    """And is asked for something else on the same connection only where that goes on."""
    said = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: 20000000\r\n\r\n" % path
    async with serving(app=refuse) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said + b"x" * 20_000_000 + said)
        await writer.drain()
        writer.write_eof()
        heard = await reader.read()
        assert heard.count(b"HTTP/1.1 413 ") == (1 if path == b"/last" else 2)
        writer.close()


@pytest.mark.parametrize("rest", [b"", b"x", b"xx"])
async def test_behind_its_answer_a_request_that_does_not_become_whole_or_is_the_last_is_not_waited_for(
    rest: bytes,
) -> None:
    async with serving(timeout_s=0.2, app=refuse) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n.")).startswith(b"HTTP/1.1 413 ")
        writer.write(rest)
        async with asyncio.timeout(PATIENCE_S):
            await reader.read()
        writer.close()


async def test_an_answer_is_not_cut_because_half_of_the_next_request_is_there() -> None:
    async with serving(timeout_s=0.1) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /slowly HTTP/1.1\r\nhost: x\r\n\r\nGET /")
        said = await reader.read()
        assert said.startswith(b"HTTP/1.1 200 ")
        assert b"about " in said and b"408" in said.split(b"about ")[1]
        writer.close()


def completion(num_tokens: int, *, stream: bool = True) -> bytes:
    body = json.dumps({"prompt": "x", "max_tokens": num_tokens, "logprobs": 5, "stream": stream}).encode()
    return b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


async def test_readers_that_stop_reading_a_stream_are_dropped_and_the_others_are_served(on_stage) -> None:
    """Five of them, whose answers the system would hold; what was generated for them ends, and a request meanwhile is
    answered as usual.
    """
    async with (
        on_stage() as stage,
        serving(send_timeout_s=0.5, app=stage.app) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        stopped = [socket.socket() for _ in range(5)]
        for connection in stopped:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", port))
            connection.sendall(completion(num_tokens=2000))
        async with asyncio.timeout(PATIENCE_S):
            while len(stage.pipeline.requests) < len(stopped):
                await asyncio.sleep(0.01)
            reply = await client.post("/v1/completions", json={"prompt": "y", "max_tokens": 3})
            assert reply.json()["choices"][0]["text"] == "abc"
            while len(stage.pipeline.cancelled) < len(stopped):
                await asyncio.sleep(0.01)
        for connection in stopped:
            connection.settimeout(PATIENCE_S)
            read_to_the_end(connection)
            connection.close()


def read_to_the_end(connection: socket.socket) -> None:
    """Raises TimeoutError where there is none."""
    try:
        while connection.recv(1 << 20):
            pass
    except ConnectionResetError:
        pass


async def test_a_long_answer_may_take_its_reader_several_times_as_long() -> None:
    """As long as it goes on: here it gets 8 MiB in pieces, pausing after each for half of the time it has."""
    num_bytes = 8 << 20

    async def long(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(num_bytes)})

    async with serving(send_timeout_s=0.4, app=long) as port:
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
            connection.connect(("127.0.0.1", port))
            connection.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(connection, b"GET / HTTP/1.0\r\n\r\n")
            num_read = 0
            async with asyncio.timeout(PATIENCE_S):
                while num_read < num_bytes:
                    until = num_read + (2 << 20)
                    while num_read < min(until, num_bytes):
                        piece = await loop.sock_recv(connection, 1 << 18)
                        assert piece, "it was dropped"
                        num_read += len(piece)
                    await asyncio.sleep(0.2)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "behind", [b"\r\n", b"GET /he", b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n", completion(9)]
)
async def test_who_leaves_ends_its_work_whatever_it_sent_behind_the_request(
    on_stage, stream: bool, behind: bytes
) -> None:
    async with on_stage() as stage, serving(app=stage.app) as port:
        stage.pipeline.gate = asyncio.Event()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(completion(5, stream=stream) + behind)
        async with asyncio.timeout(PATIENCE_S):
            while not stage.pipeline.requests:
                await asyncio.sleep(0.01)
            writer.close()
            while not stage.pipeline.cancelled:
                await asyncio.sleep(0.01)
        assert len(stage.pipeline.requests) == 1, "what waited behind is not begun"


async def test_requests_sent_at_once_are_answered_one_behind_the_other(on_stage) -> None:
    async with on_stage() as stage, serving(app=stage.app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        stage.pipeline.gate = asyncio.Event()
        writer.write(b"".join(completion(n, stream=False) for n in (2, 3, 4)))
        await asyncio.sleep(0.3)  # it has looked whether anybody is there
        stage.pipeline.gate.set()
        for text in (b'"ab"', b'"abc"', b'"abcd"'):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            assert text in (await reader.readexactly(length)).replace(b" ", b"")
        writer.close()


async def test_a_reader_that_is_slow_but_reads_gets_everything(on_stage) -> None:
    async with on_stage() as stage, serving(send_timeout_s=0.5, app=stage.app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
        writer.write(completion(num_tokens=2000))
        heard = b""
        async with asyncio.timeout(PATIENCE_S):
            while not heard.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"):
                piece = await reader.read(1 << 15)
                assert piece, "it was dropped"
                heard = heard[-64:] + piece
                await asyncio.sleep(0.02)
        writer.close()
        assert stage.pipeline.cancelled == []
