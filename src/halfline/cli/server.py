"""The listening socket and the HTTP server around it: how it starts, and how it ends without cutting anyone off."""

import asyncio
import errno
import ipaddress
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI

from halfline.api.live import LiveRequests
from halfline.errors import BadSettings

# Editors keep one connection and pause for minutes; opening a new one costs a keystroke's patience.
_KEEP_ALIVE_S = 120

# What is left for sending last events and freeing the model after running requests were ended.
_LAST_WORDS_S = 5


class Server(uvicorn.Server):
    """Ends at SIGINT or SIGTERM: no new connections, running requests get `grace_s`, then their last event.

    Then `run` returns. The second signal finds the system's own handler and ends the process at once.
    """

    def __init__(self, app: FastAPI, live: LiveRequests, grace_s: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="on",
                ws="none",
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=round(grace_s) + _LAST_WORDS_S,
            )
        )
        self._live = live
        self._grace_s = grace_s

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Uvicorn's own would raise the signal again at the end, and we promise exit code 0."""
        self.should_exit = True
        signal.signal(sig, signal.SIG_DFL)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().call_later(self._grace_s, self._live.end_all)
        await super().shutdown(sockets)


def bind(host: str, port: int, *, insecure_open: bool) -> socket.socket:
    """A socket with that address, not yet listening: clients are refused until `listen`.

    Raises BadSettings when the port is taken, the address is not ours, or others could reach it and
    `insecure_open` does not say that this is meant.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise BadSettings(f"host {host!r} is no address to listen on: {error.strerror}") from error
    if not ipaddress.ip_address(address[0]).is_loopback and not insecure_open:
        raise BadSettings(
            f"others can reach {host}, and this server asks nobody for a key:"
            " listen on 127.0.0.1, or add --insecure-open if everyone who reaches the port may use it"
        )
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with _port_errors(listener, host, port):
        listener.bind(address)
    return listener


def listen(listener: socket.socket) -> None:
    """Let clients in. Raises BadSettings when another process listens there since we bound."""
    host, port = listener.getsockname()[:2]
    with _port_errors(listener, host, port):
        listener.listen(1024)


@contextmanager
def _port_errors(listener: socket.socket, host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise BadSettings(
                f"port {port} of {host} is in use: stop the other server, or choose another port with --port"
            ) from error
        raise BadSettings(f"cannot listen on port {port} of {host}: {error.strerror}") from error
