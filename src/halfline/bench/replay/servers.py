"""The servers that a replay starts: ours, and llama-server as fast as we know how to set it up."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from halfline.bench.peers.server_process import ServerProcess

_KEPT_RECEIPTS = 1 << 16

_CONTEXT = 8192  # tokens per typist: 256 lines are up to 4,000


def halfline_server(
    model: Path, state: Path, *, threads: int, settings: Mapping[str, str], file: Path | None = None
) -> ServerProcess:
    """`halfline serve` with `state` as its data and cache directory, which is empty. `settings` by dotted name."""
    named = {f"HALFLINE_{name.upper().replace('.', '__')}": value for name, value in settings.items()}
    environment = {
        "HALFLINE_DATA_DIR": str(state / "data"),
        "HALFLINE_CACHE_DIR": str(state / "cache"),
        "HALFLINE_PIPELINE__KEPT_RECEIPTS": str(_KEPT_RECEIPTS),
        **named,
    }
    command = [sys.executable, "-m", "halfline", "serve", "--host", "127.0.0.1", "--port", "{port}"]
    command += ["--model", str(model), "--threads", str(threads)]
    if file is not None:
        command += ["--settings", str(file)]
    return ServerProcess("halfline", command, environment)


def llama_server(
    binary: Path, model: Path, *, threads: int, typists: int, arguments: Sequence[str] = ()
) -> ServerProcess:
    """One slot per typist; prompts are cached, also in main memory, and shifted parts of 256 tokens or more reused."""
    command = [str(binary), "-m", str(model), "-t", str(threads), "--host", "127.0.0.1", "--port", "{port}"]
    command += ["-np", str(typists), "-c", str(_CONTEXT * typists), "--cache-reuse", "256"]
    command += ["--cache-ram", "8192", "--metrics"]
    # A build from the package keeps its libraries beside its programs.
    paths = [str(binary.parent), os.environ.get("LD_LIBRARY_PATH", "")]
    environment = {"LD_LIBRARY_PATH": ":".join(filter(None, paths))}
    return ServerProcess(f"llama-server {model.stem}", [*command, *arguments], environment)
