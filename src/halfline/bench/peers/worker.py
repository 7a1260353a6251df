"""A peer that lives in another Python interpreter, stopped by a signal whenever it is not its turn.

The worker is one script that knows nothing of halfline. It is started with the model, the number of threads and the
sizes as JSON; it prints one line of JSON when it has loaded, with its versions, and for every line that it reads one
line with its rates.
"""

import json
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from halfline.bench.peers.failed import PeerFailed
from halfline.bench.workloads import WORKLOADS, Rates, Sizes


class Worker:
    """The process of one script. Threads that wait busily are stopped too, between turns."""

    def __init__(
        self, name: str, interpreter: Path, script: Path, model: Path, *, sizes: Sizes, threads: int
    ) -> None:
        """Starts and loads. Raises PeerFailed."""
        self._name = name
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [str(interpreter), str(script), str(model), str(threads), json.dumps(asdict(sizes))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._versions = self._read()
        self._process.send_signal(signal.SIGSTOP)

    @property
    def name(self) -> str:
        return self._name

    @property
    def versions(self) -> Mapping[str, object]:
        """Package and version, as the script told."""
        return self._versions

    def measure(self) -> Rates:
        self._process.send_signal(signal.SIGCONT)
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = self._read()
        self._process.send_signal(signal.SIGSTOP)
        return {workload: float(str(answer[workload])) for workload in WORKLOADS if workload in answer}

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _read(self) -> dict[str, object]:
        """The next line of JSON; whatever else the libraries print is passed over."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, object] = json.loads(line)
                return answer
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace")
        self.close()
        raise PeerFailed(self._name, said)
