"""A server is there when it is entered, computes nothing while it is frozen, and is gone when it is left."""

import sys
import time

import pytest

from halfline.bench.peers.failed import PeerFailed
from halfline.bench.peers.server_process import ServerProcess
from halfline.bench.replay.wire import Connection

_SERVER = """
import http.server, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
def burn():
    while True:
        sum(range(10000))
threading.Thread(target=burn, daemon=True).start()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_a_frozen_server_computes_nothing_and_a_thawed_one_answers() -> None:
    with ServerProcess("it", [sys.executable, "-c", _SERVER, "{port}"]) as server:
        connection = Connection("127.0.0.1", server.port)
        assert connection.get("/health") == (200, b"ok")
        connection.close()
        server.freeze()
        before = server.cpu_seconds()
        assert before is not None
        time.sleep(0.1)
        assert server.cpu_seconds() == before
        server.thaw()
        assert (server.cpu_seconds() or 0.0) >= before
        server.freeze()  # leaving must not wait for a process that cannot end


def test_a_server_that_ends_at_once_says_why() -> None:
    with (
        pytest.raises(PeerFailed, match="no such model"),
        ServerProcess("it", [sys.executable, "-c", "import sys; sys.exit('no such model')"]),
    ):
        raise AssertionError("it never answers")


def test_a_program_that_is_not_there_is_an_error_in_words() -> None:
    with pytest.raises(PeerFailed, match="it failed"), ServerProcess("it", ["/no/such/program"]):
        raise AssertionError("it never starts")
