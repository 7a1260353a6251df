"""llama.cpp as a contestant: llama-bench, llama-batched-bench, and llama-quantize for the other formats.

Each turn starts the programs anew; they warm up by themselves before they measure. Flash attention and repacking are
left as llama.cpp chooses. Knows its command lines and what they print, not what is compared.
"""

import json
import os
import subprocess
from pathlib import Path

from halfline.bench.peers.failed import PeerFailed
from halfline.bench.workloads import Rates, Sizes, Workload
from halfline.model.store import sha256_of


class LlamaCpp:
    """One GGUF file under llama.cpp's own benchmarks."""

    def __init__(self, programs: Path, model: Path, name: str, *, sizes: Sizes, threads: int) -> None:
        """`programs` is the folder with llama-bench; its libraries lie there too or are found otherwise."""
        self._programs = programs
        self._model = model
        self._name = name
        self._sizes = sizes
        self._threads = threads

    @property
    def name(self) -> str:
        return self._name

    def measure(self) -> Rates:
        sizes = self._sizes
        common = ["-m", str(self._model), "-t", str(self._threads)]
        once = [*common, "-r", "1", "-o", "jsonl"]
        flat = run(self._programs / "llama-bench", [*once, "-p", str(sizes.prefill), "-n", str(sizes.decode)])
        deep = run(
            self._programs / "llama-bench",
            [*once, "-p", "0", "-n", str(sizes.decode), "-d", str(sizes.depth)],
        )
        per_sequence = sizes.sequence_depth + sizes.sequence_decode
        together = run(
            self._programs / "llama-batched-bench",
            [
                *common,
                *("-c", str(sizes.sequences * per_sequence + 64)),
                *("-npp", str(sizes.sequence_depth)),
                *("-ntg", str(sizes.sequence_decode)),
                *("-npl", str(sizes.sequences)),
                *("--output-format", "jsonl"),
            ],
        )
        return {
            **bench_rates(flat),
            "decode_deep": bench_rates(deep)["decode"],
            "parallel": batched_rate(together),
        }

    def close(self) -> None:
        """Nothing runs between turns."""


def bench_rates(printed: str) -> dict[Workload, float]:
    """Tokens per second of the prefill and of the decode that llama-bench ran, from its lines of JSON."""
    rates: dict[Workload, float] = {}
    for record in json_lines(printed):
        rates["decode" if record["n_gen"] else "prefill"] = float(record["avg_ts"])
    return rates


def batched_rate(printed: str) -> float:
    """Tokens per second of all sequences together while they decode, from llama-batched-bench."""
    return float(json_lines(printed)[0]["speed_tg"])


def json_lines(printed: str) -> list[dict[str, float]]:
    """The lines that are JSON objects, among whatever else a program prints."""
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def version(programs: Path) -> str:
    """What llama.cpp says of itself, such as `version: 11434 (b1d4f2a)`."""
    said = run(programs / "llama-bench", ["--version"], with_errors=True)
    return next((line for line in said.splitlines() if line.startswith("version")), "unknown")


def requantized(programs: Path, model: Path, format_name: str, folder: Path) -> Path:
    """The same weights in another of llama.cpp's formats, made once and kept in `folder`.

    A file's quantised weights are rounded once more: fine for speed, not for quality.
    """
    made = folder / f"{sha256_of(model)[:16]}-{format_name}.gguf"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = made.with_suffix(".incoming")
        run(
            programs / "llama-quantize",
            ["--allow-requantize", str(model), str(unfinished), format_name, str(os.cpu_count() or 1)],
        )
        unfinished.rename(made)
    return made


def run(program: Path, arguments: list[str], *, with_errors: bool = False) -> str:
    """What the program printed. A build keeps its libraries beside its programs. Raises PeerFailed."""
    paths = [str(program.parent), os.environ.get("LD_LIBRARY_PATH", "")]
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, paths))}
    try:
        done = subprocess.run([str(program), *arguments], capture_output=True, text=True, env=environment)
    except OSError as error:
        raise PeerFailed(program.name, str(error)) from error
    if done.returncode != 0:
        raise PeerFailed(
            f"{program.name} {' '.join(arguments)}", f"exit code {done.returncode}\n{done.stderr}"
        )
    return done.stdout + (done.stderr if with_errors else "")
