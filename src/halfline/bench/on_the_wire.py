"""Asks an application through the server's own HTTP protocol, whose connection is in memory: what is measured begins
with the first byte that is read and ends with the last that is written.

What the system does to carry them, and the client, are no part of it.
"""

import asyncio
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from halfline.api.options import ApiOptions
from halfline.api.patience import patient_protocol

_PEER = ("127.0.0.1", 1)
_END_OF_CHUNKS = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class WireReply:
    """`thread_ms` are the event loop's thread's, `wall_ms` the clock's. `body` as it was sent, in chunks or not; names
    of headers are in small letters.
    """

    headers: Mapping[str, str]
    body: bytes
    thread_ms: float
    wall_ms: float


class Wire:
    """One connection, on the running event loop."""

    def __init__(self, app: FastAPI) -> None:
        options = ApiOptions()
        kind = patient_protocol(options.header_timeout_s, options.send_timeout_s, options.max_connections)
        config = uvicorn.Config(app, http=kind, log_config=None, access_log=False, lifespan="off", ws="none")
        config.load()
        self._protocol: HttpToolsProtocol = kind(
            config=config, server_state=ServerState(), app_state={}, _loop=asyncio.get_running_loop()
        )
        self._kept = _Kept()
        self._protocol.connection_made(self._kept)

    def close(self) -> None:
        self._protocol.connection_lost(None)

    async def ask(self, method: str, path: str, body: bytes = b"") -> WireReply:
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
        request = head.encode() + body
        kept = self._kept
        kept.begin()
        thread, wall = time.thread_time(), time.perf_counter()
        self._protocol.data_received(request)
        await kept.whole.wait()
        said, _, rest = kept.written.partition(b"\r\n\r\n")
        lines = said.decode("latin-1").split("\r\n")[1:]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return WireReply(headers, rest, (kept.thread_at - thread) * 1e3, (kept.wall_at - wall) * 1e3)


class _Kept(asyncio.Transport):
    """Keeps what is written, and when the last of it was."""

    def __init__(self) -> None:
        super().__init__()
        self.socket = socket.socket()
        self.begin()

    def begin(self) -> None:
        self.written = b""
        self.whole = asyncio.Event()
        self.thread_at = self.wall_at = 0.0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data
        self.thread_at, self.wall_at = time.thread_time(), time.perf_counter()
        head, _, rest = self.written.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")),
            None,
        )
        if rest.endswith(_END_OF_CHUNKS) if length is None else len(rest) == length:
            self.whole.set()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return {"socket": self.socket, "peername": _PEER, "sockname": _PEER}.get(name, default)

    def pause_reading(self) -> None:
        """A request is given as a whole."""

    def resume_reading(self) -> None:
        """As above."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """All there is room for is kept."""

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.socket.close()

    def is_closing(self) -> bool:
        return False
