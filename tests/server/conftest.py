"""`halfline serve` as a user runs it: a process of its own, that dies at the first look outside this machine."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

# Python reports every connection and name look-up to this hook, whichever library asks for it.
_GUARDED = """
import os, sys
def guard(event, arguments):
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    if host not in ("127.0.0.1", "::1", "localhost", "0.0.0.0"):
        os.write(2, f"outbound traffic: {event} {arguments}\\n".encode())
        os._exit(97)
sys.addaudithook(guard)
from halfline.cli.entry import main
main()
"""


def guarded_command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", _GUARDED, *arguments]


class ServerProcess:
    """One running server. `log` grows while it runs; `url` is known once it greeted."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self.log: list[str] = []
        self.url = ""
        self._greeted = threading.Event()
        self.process = subprocess.Popen(
            guarded_command("serve", *arguments),
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r"serves .* at (https?://\S+)", line):
                self.url = found[1]
                self._greeted.set()
        self.process.stderr.close()
        self._greeted.set()

    def wait_until_greeted(self) -> "ServerProcess":
        assert self._greeted.wait(120), "no greeting within two minutes"
        assert self.url, "".join(self.log)
        return self

    def wait_until_ready(self) -> "ServerProcess":
        self.wait_until_greeted()
        assert httpx.get(f"{self.url}/health").status_code == 200, "it greeted too early"
        return self

    def end(self, sig: signal.Signals) -> int:
        """Send the signal; the exit code (negative: killed by that signal)."""
        self.process.send_signal(sig)
        code = self.process.wait(60)
        self._reader.join()
        return code

    def wait_log_end(self) -> None:
        """Until everything the ended process said is in `log`."""
        self._reader.join()

    def metric(self, sample: str) -> float:
        text = httpx.get(f"{self.url}/metrics").text
        (line,) = [line for line in text.splitlines() if line.startswith(f"{sample} ")]
        return float(line.split()[-1])


@pytest.fixture(scope="session")
def start_server(embedded_model: Path) -> Iterator[Callable[..., ServerProcess]]:
    """`start_server("--flag", HALFLINE_X="y")`, not yet ready; whatever still runs at the end is killed."""
    started = []

    def start(*arguments: str, **environment: str) -> ServerProcess:
        given = arguments if "--port" in arguments else ("--port", "0", *arguments)
        settings = {"HALFLINE_KV_BYTES": "256MiB", "HALFLINE_MODEL": str(embedded_model), **environment}
        server = ServerProcess(list(given), settings)
        started.append(server)
        return server

    yield start
    for server in started:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)
        server.wait_log_end()


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess]) -> ServerProcess:
    """One server for a whole file of tests."""
    return start_server().wait_until_ready()


@pytest.fixture
def guarded() -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Run one halfline command under the same guard to its end."""

    def run(*arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            guarded_command(*arguments), input=stdin, capture_output=True, text=True, timeout=120, check=False
        )

    return run
