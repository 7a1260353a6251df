"""How long a connection may keep us waiting: for a request's head, and for its reader when an answer is ready.

Uvicorn waits for the first head, and for the rest of any, for ever, and so for a reader that has stopped reading;
between two requests its keep-alive timeout holds.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def patient_protocol(header_timeout_s: float, send_timeout_s: float) -> type[HttpToolsProtocol]:
    """Uvicorn's protocol, closing a connection `header_timeout_s` after it was made, or after the first byte of a later
    request, if the request's head is not whole by then; and `send_timeout_s` after its reader fell behind by what
    asyncio buffers (64 KiB), if it has not read most of that by then. What was asked for there ends like that of any
    client that leaves.
    """

    class Protocol(HttpToolsProtocol):
        _head_timer: asyncio.TimerHandle | None = None
        _reader_timer: asyncio.TimerHandle | None = None
        _reading_body = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._head_is_whole()
            self._reader_goes_on()

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

        def pause_writing(self) -> None:
            super().pause_writing()
            self._reader_timer = self.loop.call_later(send_timeout_s, self._give_up_reader)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._reader_goes_on()

        def _reader_goes_on(self) -> None:
            if self._reader_timer is not None:
                self._reader_timer.cancel()
                self._reader_timer = None

        def _give_up_reader(self) -> None:
            self.transport.abort()  # closing would wait for it to read what is buffered

        def _expect_head(self) -> None:
            if self._head_timer is None:
                self._head_timer = self.loop.call_later(header_timeout_s, self._too_slow)

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
