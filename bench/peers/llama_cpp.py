"""llama.cpp's server as a peer: started for one model, asked for whole distributions, stopped.

Knows the server's HTTP dialect and command line, not what is compared. README.md says how to get the binary.
"""

import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import numpy as np
from numpy.typing import NDArray

START_SECONDS = 120


class LlamaServer:
    """A llama-server process with one slot; enter it to start, leave it to stop. `arguments` go to it as they are."""

    def __init__(
        self, binary: Path, model: Path, *, threads: int, context: int, arguments: Sequence[str] = ()
    ) -> None:
        self._command = [str(binary), "-m", str(model), "-t", str(threads), "-c", str(context)]
        self._command += ["-np", "1", "--host", "127.0.0.1", *arguments]
        # A build from the package keeps its libraries beside its programs.
        paths = [str(binary.parent), os.environ.get("LD_LIBRARY_PATH", "")]
        self._environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, paths))}
        self._log = tempfile.TemporaryFile()

    def __enter__(self) -> httpx.Client:
        port = _free_port()
        self._process = subprocess.Popen(
            [*self._command, "--port", str(port)],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=self._environment,
        )
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        try:
            self._wait_until_ready(client)
        except BaseException:
            self._stop()
            raise
        return client

    def __exit__(self, *failure: object) -> None:
        self._stop()

    def _wait_until_ready(self, client: httpx.Client) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(
                    f"llama-server ended with {self._process.returncode}:\n{self._last_lines()}"
                )
            try:
                if client.get("/health").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise TimeoutError(f"llama-server was not ready in {START_SECONDS} s:\n{self._last_lines()}")

    def _last_lines(self) -> str:
        self._log.seek(0)
        return "\n".join(self._log.read().decode(errors="replace").splitlines()[-10:])

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class ServerLogits:
    """A quality.divergence.LogitSource: one request per position, each with the vocabulary's log-probabilities.

    At temperature 0 the server reports the model's own distribution, before any sampling filter; that each adds up
    to 1 is checked, because it has meant other things in other versions. The prompt of each request extends the last
    one, so that the server computes one token: about 0.3 s each on 2 cores, nearly all of it JSON.
    """

    def __init__(self, client: httpx.Client, vocab_size: int) -> None:
        self._client = client
        self._vocab_size = vocab_size

    def pieces(self, token_ids: NDArray[np.int32], max_rows: int) -> Iterator[NDArray[np.float64]]:
        for start in range(0, len(token_ids), max_rows):
            stop = min(start + max_rows, len(token_ids))
            yield np.stack([self._log_probabilities(token_ids[: place + 1]) for place in range(start, stop)])

    def _log_probabilities(self, prompt: NDArray[np.int32]) -> NDArray[np.float64]:
        body = {
            "prompt": prompt.tolist(),
            "n_predict": 1,
            "n_probs": self._vocab_size,
            "temperature": 0,
            "cache_prompt": True,
            # Chosen whatever the distribution, which is reported before this bias: behind an end of text or half a
            # character the server would report nothing.
            "logit_bias": [["a", 1000]],
        }
        response = self._client.post("/completion", json=body)
        response.raise_for_status()
        # {"id":7,"token":"a","bytes":[97],"logprob":-1.5}, once per token. A JSON parser is many times slower, as every
        # byte becomes an object. Quotes inside tokens are escaped, so the patterns cannot match there.
        listed = response.content.partition(b'"top_logprobs":')[2]
        token_ids = np.array(re.findall(rb'{"id":(\d+),', listed), dtype=np.int64)
        row = np.full(self._vocab_size, np.nan)
        row[token_ids] = np.array(re.findall(rb'"logprob":(-?[\d.e+-]+)}', listed), dtype=np.float64)
        total = float(np.exp(row).sum())
        if not abs(total - 1) < 1e-3:
            raise ValueError(
                f"{len(token_ids)} of {self._vocab_size} probabilities came, adding up to {total}"
            )
        return row


def version(binary: Path) -> str:
    """What the program says of itself, such as `version: 11434 (b1d4f2a)`."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(binary.parent)}
    said = subprocess.run(
        [str(binary), "--version"], capture_output=True, text=True, env=environment, check=True
    )
    return next(line for line in (said.stderr + said.stdout).splitlines() if line.startswith("version"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
