"""llama.cpp's server as a peer: started for one model, asked for whole distributions, stopped.

Knows the server's HTTP dialect and command line, not what is compared. README.md says how to get the binary.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import numpy as np
from numpy.typing import NDArray

from halfline.bench.peers.server_process import ServerProcess


class LlamaServer:
    """A llama-server process with one slot; enter it to start, leave it to stop. `arguments` go to it as they are."""

    def __init__(
        self, binary: Path, model: Path, *, threads: int, context: int, arguments: Sequence[str] = ()
    ) -> None:
        command = [str(binary), "-m", str(model), "-t", str(threads), "-c", str(context)]
        command += ["-np", "1", "--host", "127.0.0.1", "--port", "{port}", *arguments]
        # A build from the package keeps its libraries beside its programs.
        paths = [str(binary.parent), os.environ.get("LD_LIBRARY_PATH", "")]
        self._process = ServerProcess(
            "llama-server", command, {"LD_LIBRARY_PATH": ":".join(filter(None, paths))}
        )

    def __enter__(self) -> httpx.Client:
        port = self._process.__enter__().port
        return httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)

    def __exit__(self, *failure: object) -> None:
        self._process.__exit__(*failure)


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
