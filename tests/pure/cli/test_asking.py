"""`halfline complete --server`: which address is asked, and with which key."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from halfline.cli.asking import complete_there
from halfline.request import Document

COSTS = (
    "num_prompt_tokens",
    "num_reused_tokens",
    "num_generated_tokens",
    "prefill_ms",
    "decode_ms",
    "total_ms",
)


class Answering(BaseHTTPRequestHandler):
    """A server that knows the two routes and nothing else."""

    protocol_version = "HTTP/1.0"
    keys: ClassVar[list[str | None]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        event = json.dumps({"id": "cmpl-1", "choices": [{"text": "x"}]})
        self._answer("/v1/completions", f"data: {event}\n\ndata: [DONE]\n\n")

    def do_GET(self) -> None:
        self._answer("/v1/completions/cmpl-1/why", json.dumps(dict.fromkeys(COSTS, 1)))

    def _answer(self, path: str, body: str) -> None:
        self.keys.append(self.headers["authorization"])
        self.send_response(200 if self.path == path else 404)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def origin() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
def test_the_base_url_of_the_greeting_is_as_good_as_the_address(origin: str, ending: str, capsys) -> None:
    complete_there(origin + ending, Document("a", "b", None), 4, None)
    assert capsys.readouterr().out == "x"


@pytest.mark.parametrize(("key", "sent"), [(None, None), ("hl_1", "Bearer hl_1")])
def test_both_requests_of_a_completion_carry_the_key(
    origin: str, capsys, key: str | None, sent: str | None
) -> None:
    Answering.keys.clear()
    complete_there(origin, Document("a", "b", None), 4, None, key)
    assert capsys.readouterr().out == "x"
    assert Answering.keys == [sent, sent]
