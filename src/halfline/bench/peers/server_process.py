"""A server as a process of its own: started with empty state, frozen while others are measured, ended.

Knows processes, not what servers say; how long one computed is read from the system, so it is known on Linux only.
"""

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from halfline.bench.peers.failed import PeerFailed

START_SECONDS = 120.0


class ServerProcess:
    """Enter it to start it and wait until `GET /health` is 200; leave it to end it. `port` is free when it starts."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """`{port}` in the command becomes the port. `environment` is added to this process's."""
        self.name = name
        self.port = _free_port()
        self._command = [word.replace("{port}", str(self.port)) for word in command]
        self._environment = {**os.environ, **(environment or {})}
        self._log = tempfile.TemporaryFile("a+b")  # appended to wherever we read

    def __enter__(self) -> "ServerProcess":
        """Raises PeerFailed."""
        try:
            self._process = subprocess.Popen(
                self._command,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,  # an interrupt of ours is not theirs
            )
        except OSError as error:
            self._log.close()
            raise PeerFailed(self.name, str(error)) from error
        try:
            self._wait_until_ready()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        self._end()

    def freeze(self) -> None:
        """It computes nothing until `thaw`."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Returns when it answers again. Raises PeerFailed when it does not."""
        self._process.send_signal(signal.SIGCONT)
        if not self._healthy():
            raise PeerFailed(self.name, self.last_lines())

    def cpu_seconds(self) -> float | None:
        """Of all its threads since its start, to a hundredth; None where the system does not tell."""
        try:
            stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        except OSError:
            return None
        # The name, in parentheses, may hold blanks; the first field behind it is the third.
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def last_lines(self) -> str:
        self._log.seek(0)
        return "\n".join(self._log.read().decode(errors="replace").splitlines()[-8:])

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise PeerFailed(self.name, f"exit code {self._process.returncode}\n{self.last_lines()}")
            if self._healthy():
                return
            time.sleep(0.05)
        raise PeerFailed(self.name, f"not ready in {START_SECONDS:.0f} s\n{self.last_lines()}")

    def _healthy(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def _end(self) -> None:
        # A stopped process does not end before it runs again.
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
