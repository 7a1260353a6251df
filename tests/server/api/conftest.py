"""Requests exactly as clients send them, byte for byte, and the ways clients read what comes back."""

import http.client
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

GOLDEN = Path(__file__).parent / "golden"

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def sse(self) -> Iterator[Any]:
        """The JSON of each event, read as strictly as the strictest client: nothing but `data:` lines with JSON, and
        [DONE] for those who wait for it (which ends this iterator).
        """
        assert self.headers["content-type"].startswith("text/event-stream")
        assert b": ping" not in self.body, "a client takes it for the end"
        for event in self.body.decode().split("\n\n")[:-1]:
            assert event.startswith("data: ") and "\n" not in event
            if event == "data: [DONE]":
                return
            yield json.loads(event.removeprefix("data: "))

    def lines(self) -> list[Any]:
        """One JSON object per line."""
        return [json.loads(line) for line in self.body.splitlines()]


Golden = Callable[[str], dict[str, Any]]
Ask = Callable[..., Reply]


@pytest.fixture(scope="session")
def golden_names() -> list[str]:
    return sorted(path.stem for path in GOLDEN.glob("*.json"))


@pytest.fixture(scope="session")
def golden() -> Golden:
    """`golden(name)`: a request with its `method`, `path`, `headers` and `body`."""
    return lambda name: json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture
def ask(server: Any, golden: Golden) -> Ask:
    """`ask(name, **changes)`: the reply to a golden request, some fields of its body changed."""

    def asked(name: str, **changes: object) -> Reply:
        request = golden(name)
        return _send(server.url, {**request, "body": {**request["body"], **changes}})

    return asked


def _send(url: str, request: dict[str, Any]) -> Reply:
    """`http.client` sends headers that others refuse to, such as `Bearer ` with nothing behind."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=120)
    try:
        body = json.dumps(request["body"]).encode()
        connection.request(request["method"], request["path"], body, request["headers"])
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, headers, response.read())
    finally:
        connection.close()


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made by the `openssl` command: `ca`, and `server` and `client` signed by it; `other-ca` and its `stranger`: each
    a .pem and a .key.
    """
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(name: str, *options: str) -> None:
        named = ("-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}")
        command = ["openssl", "req", "-x509", *CURVE, *named, *options]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

    for authority, holders in {"ca": ("server", "client"), "other-ca": ("stranger",)}.items():
        openssl(authority)
        for holder in holders:
            signed = ("-CA", f"{authority}.pem", "-CAkey", f"{authority}.key")
            extensions = ("basicConstraints=CA:FALSE", "subjectAltName=IP:127.0.0.1")
            openssl(holder, *signed, *(each for extension in extensions for each in ("-addext", extension)))
    return folder
