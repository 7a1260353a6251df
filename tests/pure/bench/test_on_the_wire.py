"""A reply through the server's own protocol, without a socket's other end."""

import asyncio
from collections.abc import AsyncIterator

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from halfline.bench.on_the_wire import Wire


def test_replies_are_whole_with_a_length_and_in_chunks_one_after_the_other() -> None:
    app = FastAPI()

    @app.post("/echo")
    async def echo(request: Request) -> Response:
        return JSONResponse({"said": (await request.body()).decode()}, headers={"X-Cache": "typed"})

    @app.get("/stream")
    async def stream() -> Response:
        async def parts() -> AsyncIterator[bytes]:
            for part in (b"a", b"b"):
                yield part
                await asyncio.sleep(0)

        return StreamingResponse(parts())

    async def main() -> None:
        wire = Wire(app)
        said = "x" * 100_000
        for _ in range(2):
            reply = await wire.ask("POST", "/echo", said.encode())
            assert (reply.headers["x-cache"], reply.body) == ("typed", b'{"said":"' + said.encode() + b'"}')
            assert (await wire.ask("GET", "/stream")).body == b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n"
        wire.close()

    asyncio.run(main())
