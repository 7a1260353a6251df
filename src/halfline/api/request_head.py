"""A request's head has to come in time: a connection that trickles, or says nothing, is closed.

Uvicorn waits for the first head, and for the rest of any, for ever; between two requests its keep-alive timeout holds.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def protocol_with_head_timeout(timeout_s: float) -> type[HttpToolsProtocol]:
    """Uvicorn's protocol, closing a connection `timeout_s` after it was made, or after the first byte of a later
    request, if the request's head is not whole by then.
    """

    class Protocol(HttpToolsProtocol):
        _head_timer: asyncio.TimerHandle | None = None
        _reading_body = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._head_is_whole()

        def data_received(self, data: bytes) -> None:
            if not self._reading_body:
                self._expect_head()  # also where only empty lines come, with which no message begins
            super().data_received(data)

        def on_message_begin(self) -> None:
            self._expect_head()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._head_is_whole()
            self._reading_body = True
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._reading_body = False
            super().on_message_complete()

        def _expect_head(self) -> None:
            if self._head_timer is None:
                self._head_timer = self.loop.call_later(timeout_s, self._too_slow)

        def _head_is_whole(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _too_slow(self) -> None:
            self._head_timer = None
            if self.cycle is not None and not self.cycle.response_complete:
                self._expect_head()  # the answer to the request before is still being sent
                return
            if not self.transport.is_closing():
                self.transport.write(_TOO_SLOW)
                self.transport.close()

    return Protocol
