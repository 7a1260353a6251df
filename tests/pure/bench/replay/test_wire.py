"""Events and their times are read off a real socket, and an answer that takes too long is hung up on."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from halfline.bench.replay.wire import Connection, ReplayFailed

_HUNG_UP = threading.Event()


class _Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/refuse":
            self.send_error(503, "busy")
            return
        self.send_response(200)
        self.send_header("X-Cache", "typed")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._chunk(b'data: {"n": 1}\n\n')
        self.close_connection = self.path == "/last"
        if self.path == "/slow":
            try:
                while True:
                    time.sleep(0.01)
                    self._chunk(b": still here\n\n")
            except OSError:
                _HUNG_UP.set()
            self.close_connection = True
            return
        self._chunk(b'data: {"n": 2}\n\ndata: [DONE]\n\n')
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def connection() -> Iterator[Connection]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    connection = Connection("127.0.0.1", server.server_address[1])
    yield connection
    connection.close()
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_answer_is_its_events_with_their_times_and_headers(connection: Connection) -> None:
    for _ in range(2):  # over the same connection
        events = connection.ask("/events", b"{}", None)
        assert [data for _, data in events.data] == [{"n": 1}, {"n": 2}]
        assert events.ended_s == events.data[-1][0] >= events.data[0][0] > 0
        assert events.headers["x-cache"] == "typed"


def test_an_answer_that_takes_too_long_is_hung_up_on_and_the_next_one_comes(connection: Connection) -> None:
    _HUNG_UP.clear()
    events = connection.ask("/slow", b"{}", 0.2)
    assert events.ended_s is None and [data for _, data in events.data] == [{"n": 1}]
    assert _HUNG_UP.wait(10)
    assert connection.ask("/events", b"{}", 10.0).ended_s is not None


def test_a_connection_that_the_server_closed_is_opened_again(connection: Connection) -> None:
    assert [connection.ask("/last", b"{}", None).data[-1][1] for _ in range(3)] == [{"n": 2}] * 3


def test_a_refusal_is_an_error_in_words(connection: Connection) -> None:
    with pytest.raises(ReplayFailed, match="/refuse answered 503"):
        connection.ask("/refuse", b"{}", None)


def test_nobody_there_is_an_error_in_words() -> None:
    with pytest.raises(ReplayFailed, match=r"nobody answers at 127\.0\.0\.1:1"):
        Connection("127.0.0.1", 1).get("/")
