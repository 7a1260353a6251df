"""One connection to a server, and an answer as it comes: lines of server-sent events, each with its time of arrival.

The standard library's client, because it costs a tenth of a millisecond and is the same for every server. What events
mean is the dialect's.
"""

import http.client
import json
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from halfline.errors import HalflineError

_PATIENCE_S = 600.0  # a cold prompt on a machine with much else to do


# A server that waits for the acknowledgement of one piece before it sends the next (Nagle's algorithm) would be
# charged this machine's 40 ms of patience with acknowledgements. To be said before each read; only on Linux.
_ACKNOWLEDGE_AT_ONCE: int | None = getattr(socket, "TCP_QUICKACK", None)


class ReplayFailed(HalflineError):
    """A server refused a keystroke, or broke off."""


@dataclass(frozen=True, slots=True)
class Events:
    """The JSON of each event and the seconds until it came. `ended_s` None: given up before the end."""

    data: list[tuple[float, Any]]
    headers: Mapping[str, str]
    ended_s: float | None


class Connection:
    """Kept open between requests, and opened again after one that was given up."""

    def __init__(self, host: str, port: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self._address = (host, port)
        self._clock = clock
        self._http: http.client.HTTPConnection | None = None

    def ask(self, path: str, body: bytes, within_s: float | None) -> Events:
        """POST and read until the server ends it, or until `within_s` are over: then the server sees a hang-up.

        Raises ReplayFailed.
        """
        try:
            try:
                return self._ask(path, body, within_s)
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                # Servers close connections between two requests whenever they like; clients then open another.
                return self._ask(path, body, within_s)
        except (OSError, http.client.HTTPException) as error:
            raise ReplayFailed(f"{path} broke off: {error!r}") from error

    def _ask(self, path: str, body: bytes, within_s: float | None) -> Events:
        # Before the clock starts: a client has its connection.
        connection = self._opened()
        started = self._clock()
        arrived: list[tuple[float, bytes]] = []
        headers: Mapping[str, str] = {}
        ended = False
        try:
            self._wait_at_most(connection, started, within_s)
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            headers = {name.lower(): value for name, value in reply.getheaders()}
            if reply.status != 200:
                said = reply.read()[:300].decode(errors="replace")
                raise ReplayFailed(f"{path} answered {reply.status}: {said}")
            while line := self._line(connection, reply, started, within_s):
                if line.startswith(b"data: ") and line != b"data: [DONE]\n":
                    arrived.append((self._clock() - started, line))
            ended = True
        except TimeoutError:
            if within_s is None:
                raise ReplayFailed(f"{path} said nothing for {_PATIENCE_S:.0f} s") from None
        finally:
            if not ended:
                self.close()
        ended_s = arrived[-1][0] if ended and arrived else None
        # What the events say is read after the clock has stopped.
        return Events([(at, json.loads(line[6:])) for at, line in arrived], headers, ended_s)

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body. Raises ReplayFailed."""
        connection = self._opened()
        try:
            self._wait_at_most(connection, self._clock(), None)
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ReplayFailed(f"{path} broke off: {error!r}") from error

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def _opened(self) -> http.client.HTTPConnection:
        if self._http is None:
            self._http = http.client.HTTPConnection(*self._address)
            try:
                self._http.connect()
            except OSError as error:
                self._http = None
                raise ReplayFailed(
                    f"nobody answers at {self._address[0]}:{self._address[1]}: {error}"
                ) from error
        return self._http

    def _line(
        self,
        connection: http.client.HTTPConnection,
        reply: http.client.HTTPResponse,
        started: float,
        within_s: float | None,
    ) -> bytes:
        self._wait_at_most(connection, started, within_s)
        if connection.sock is not None and _ACKNOWLEDGE_AT_ONCE is not None:
            connection.sock.setsockopt(socket.IPPROTO_TCP, _ACKNOWLEDGE_AT_ONCE, 1)
        return reply.readline()

    def _wait_at_most(
        self, connection: http.client.HTTPConnection, started: float, within_s: float | None
    ) -> None:
        left = _PATIENCE_S if within_s is None else within_s - (self._clock() - started)
        if left <= 0:
            raise TimeoutError
        # None once the reply was the connection's last and has taken the socket over.
        if connection.sock is not None:
            connection.sock.settimeout(left)
