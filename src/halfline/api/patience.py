"""How long a connection may keep us waiting: for a request's head, and for its reader when an answer is ready; and how
soon its end is noticed.

Uvicorn waits for the first head, and for the rest of any, for ever, and so for a reader that has stopped reading;
between two requests its keep-alive timeout holds, unless the first was answered before it was whole. While a request
waits behind another it does not read, and so does not see that the client has left; and when it sees it, it tells the
last request of the connection, not the running one.
"""

import asyncio
import select
import socket
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from halfline.api.declined_upgrades import DecliningParser, head_without_offer
from halfline.api.open_connections import OpenConnections

MAX_UNREAD_BYTES = 16 * 1024
"""What the system may keep of an answer beyond what is on its way: it would take megabytes from us before a reader that
has stopped is noticed. What is on its way is bounded by the reader's own system."""

MAX_HEAD_BYTES = 64 * 1024
"""Of a request's head that is not whole yet: what comes at once may be a little more."""

_READS_ON_BYTES = 64 * 1024
"""What a reader that is behind has to read, in the time it has for that, to be given the same time again."""

_LOOK_AGAIN_S = 0.25

# Linux tells that the other end was closed although there is unread data before that; elsewhere only a reset is seen.
_LEFT = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def patient_protocol(
    header_timeout_s: float, send_timeout_s: float, max_connections: int
) -> type[HttpToolsProtocol]:
    """Uvicorn's protocol, closing a connection `header_timeout_s` after it was made, or after the first byte of a later
    request, if the request's head is not whole by then, and at once where that grows beyond MAX_HEAD_BYTES; and
    `send_timeout_s` after its reader fell behind, which is by MAX_UNREAD_BYTES and as much in our own buffer, if it has
    read neither most of that by then nor another 64 KiB. What was asked for there ends like that of any client that
    leaves, which is noticed at once, or a quarter of a second later where more requests wait behind the one that runs.
    What comes of a request behind its answer is heard for `header_timeout_s`, and meant for nobody.
    Of more than `max_connections` one that asks for nothing is closed; where there is none the new one hears 503.
    """
    connections = OpenConnections(max_connections)

    class Protocol(HttpToolsProtocol):
        _head_timer: asyncio.TimerHandle | None = None
        _reader_timer: asyncio.TimerHandle | None = None
        _leaving_timer: asyncio.TimerHandle | None = None
        _rest_timer: asyncio.TimerHandle | None = None
        _closes_behind_the_rest = False
        _shuts_down = False
        _num_head_bytes = 0
        _reading_body = False
        _running: RequestResponseCycle | None = None
        _declining: DecliningParser

        @property
        def answering(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        @property
        def begins_a_request(self) -> bool:
            return self._head_timer is not None

        def drop(self) -> None:
            self.transport.abort()

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if not connections.enter(self):
                self._refuse(_TOO_MANY)
                return
            _keep_little(transport)
            self._declining = DecliningParser(self.parser, self._declined)
            self.parser = self._declining  # type: ignore[assignment]
            self._expect_head()

        def _declined(self) -> bytes:
            version = self.parser.get_http_version()
            return head_without_offer(self.parser.get_method(), self.url, version, self.headers)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            connections.leave(self)
            self._head_is_whole()
            self._reader_goes_on()
            self._rest_is_here()
            self.pipeline.clear()
            if self._leaving_timer is not None:
                self._leaving_timer.cancel()
            if self._running is not None and not self._running.response_complete:
                self._running.disconnected = True
                self._running.message_event.set()

        def data_received(self, data: bytes) -> None:
            if not self._reading_body:
                self._expect_head()  # also where only empty lines come, with which no message begins
            this_head = self._head_timer
            super().data_received(data)
            goes_on = this_head is not None and self._head_timer is this_head
            self._num_head_bytes = self._num_head_bytes + len(data) if goes_on else 0
            if self._num_head_bytes > MAX_HEAD_BYTES:
                self._refuse(_TOO_LARGE)

        def on_message_begin(self) -> None:
            self._expect_head()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            if self._declining.offers or self.transport.is_closing():
                return
            self._head_is_whole()
            connections.asked(self)
            self._reading_body = True
            super().on_headers_complete()
            if self.pipeline and self._leaving_timer is None:
                self._look_whether_left()

        def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
            self._running = cycle
            cycle.transport = _Answering(self.transport, self._part)  # type: ignore[assignment]
            super()._start_asgi_task(cycle, app)

        def on_message_complete(self) -> None:
            if self._declining.offers:
                return
            self._reading_body = False
            super().on_message_complete()
            if self._rest_is_here():
                if self._closes_behind_the_rest:
                    self.transport.close()
                else:
                    self._expect_head()

        def on_response_complete(self) -> None:
            was_early = self._answers_early
            super().on_response_complete()
            if was_early:
                self._rest_timer = self.loop.call_later(header_timeout_s, self.transport.close)

        def shutdown(self) -> None:
            self._shuts_down = True
            super().shutdown()

        def _rest_is_here(self) -> bool:
            """Whether it was waited for."""
            if self._rest_timer is None:
                return False
            self._rest_timer.cancel()
            self._rest_timer = None
            return True

        @property
        def _answers_early(self) -> bool:
            """Whether the request that is being answered is not whole."""
            return self._reading_body and self._running is self.cycle

        def _part(self) -> None:
            """To who still sends a closed connection is a reset, which takes the answer with it (RFC 9112, 9.6)."""
            if self._answers_early and not self._shuts_down:
                self._closes_behind_the_rest = True
            else:
                self.transport.close()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._wait_for_reader()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._reader_goes_on()

        def _reader_goes_on(self) -> None:
            if self._reader_timer is not None:
                self._reader_timer.cancel()
                self._reader_timer = None

        def _wait_for_reader(self) -> None:
            behind = self.transport.get_write_buffer_size()
            self._reader_timer = self.loop.call_later(send_timeout_s, self._look_at_reader, behind)

        def _look_at_reader(self, was_behind: int) -> None:
            if was_behind - self.transport.get_write_buffer_size() >= _READS_ON_BYTES:
                self._wait_for_reader()
            else:
                self.transport.abort()  # closing would wait for it to read what is buffered

        def _look_whether_left(self) -> None:
            self._leaving_timer = None
            if _has_left(self.transport):
                self.transport.abort()
            elif self.pipeline:
                self._leaving_timer = self.loop.call_later(_LOOK_AGAIN_S, self._look_whether_left)

        def _expect_head(self) -> None:
            if self._head_timer is None:
                self._head_timer = self.loop.call_later(header_timeout_s, self._too_slow)

        def _head_is_whole(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _too_slow(self) -> None:
            self._head_timer = None
            if self.answering:
                self._expect_head()  # the answer to the request before is still being sent
            else:
                self._refuse(_TOO_SLOW)

        def _refuse(self, reply: bytes) -> None:
            """Where the answer to the request before is still being sent, it ends here: nobody waits for it."""
            if self.answering:
                self.transport.abort()
            elif not self.transport.is_closing():
                self.transport.write(reply)
                self.transport.close()

    return Protocol


class _Answering:
    """A connection as an answer sees it; `part` is how it ends behind that."""

    def __init__(self, transport: asyncio.Transport, part: Callable[[], None]) -> None:
        self.write = transport.write
        self.is_closing = transport.is_closing
        self.close = part


def _keep_little(transport: asyncio.Transport) -> None:
    """Data on its way is not bounded by this: a reader far away is sent as much at once as before."""
    transport.set_write_buffer_limits(high=MAX_UNREAD_BYTES)
    connection = transport.get_extra_info("socket")
    if hasattr(socket, "TCP_NOTSENT_LOWAT") and connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNREAD_BYTES)


def _has_left(transport: asyncio.Transport) -> bool:
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), _LEFT)
    return bool(poll.poll(0))
