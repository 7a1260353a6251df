"""Our KL between two weights of one model beside what llama.cpp's own `llama-perplexity --kl-divergence` says of them.

Both read the same text in the same windows and score the second half of each. The arithmetic differs (each its own
kernels) and llama.cpp keeps the baseline's log-probabilities in 16 bits, which alone is some 5e-4 nats (its README);
beyond that and the spread over windows the two have to agree. Nothing here is about speed.

    python -m bench.peers.kl_perplexity --perplexity PATH/llama-perplexity --baseline A.gguf --candidate B.gguf

Prints a table, ends with one line of JSON.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.peers.llama_cpp import version
from halfline.model.executor import BLOCK_TOKENS
from halfline.model.load import open_checkpoint
from halfline.model.store import sha256_of
from halfline.native.executor import NativeExecutor
from halfline.quality.divergence import ExecutorLogits, Scores, measure
from halfline.quality.texts import Window, default_texts
from halfline.text.tokenizer import Tokenizer

_PRINTED = {
    "mean_kl": r"Mean\s+KLD:\s+(\S+)\s+±\s+(\S+)",
    "p99_kl": r"99\.0%\s+KLD:\s+(\S+)",
    "max_kl": r"Maximum KLD:\s+(\S+)",
    "top1_agreement": r"Same top p:\s+(\S+)\s+±",
}


def main() -> None:
    options = parse()
    text = "\n".join(path.read_text("utf-8") for path in default_texts())
    theirs = llama_cpp(options, text)
    ours = halfline(options, text)
    table = Table("", "halfline", "llama.cpp")
    for name in ours:
        table.add_row(name, f"{ours[name]:.5g}", f"{theirs[name]:.5g}")
    table.add_row("standard error of the mean", "", f"{theirs['mean_kl_error']:.2g}")
    Console().print(table)
    result = {
        "command": "python -m bench.peers.kl_perplexity "
        + " ".join(Path(word).name if word.startswith("/") else word for word in sys.argv[1:]),
        "measured": "KL(baseline ‖ candidate), the second half of each window",
        "date": datetime.now(UTC).date().isoformat(),
        "llama_cpp": version(options.perplexity),
        "baseline_sha256": sha256_of(options.baseline),
        "candidate_sha256": sha256_of(options.candidate),
        "chunks": options.chunks,
        "window": options.window,
        "halfline": ours,
        "llama_cpp_says": theirs,
    }
    if options.record is not None:
        options.record.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--perplexity", type=Path, required=True, help="the llama-perplexity program")
    parser.add_argument("--baseline", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--candidate", type=Path, required=True, help="another of the same model")
    parser.add_argument("--chunks", type=int, default=8, help="windows")
    parser.add_argument("--window", type=int, default=512, help="tokens of each")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--record", type=Path, help="also write the JSON to this file")
    return parser.parse_args()


def llama_cpp(options: argparse.Namespace, text: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        file, base = Path(folder, "text"), Path(folder, "base")
        file.write_text(text, encoding="utf-8")
        common = ["-f", str(file), "-c", str(options.window), "--chunks", str(options.chunks)]
        common += ["-t", str(options.threads), "--kl-divergence-base", str(base)]
        run(options.perplexity, ["-m", str(options.baseline), *common])
        said = run(options.perplexity, ["-m", str(options.candidate), *common, "--kl-divergence"])
    found: dict[str, float] = {}
    for name, pattern in _PRINTED.items():
        match = re.search(pattern, said)
        if match is None:
            raise SystemExit(f"llama-perplexity does not say {name}:\n{said[-2000:]}")
        found[name] = float(match[1])
        if name == "mean_kl":
            found["mean_kl_error"] = float(match[2])
    found["top1_agreement"] /= 100
    return found


def run(program: Path, arguments: list[str]) -> str:
    paths = [str(program.parent), os.environ.get("LD_LIBRARY_PATH", "")]
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, paths))}
    done = subprocess.run([program, *arguments], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{program.name} failed:\n{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def halfline(options: argparse.Namespace, text: str) -> dict[str, float]:
    sources = []
    for path in (options.baseline, options.candidate):
        with closing(open_checkpoint(path)) as checkpoint:
            token_ids = np.array(Tokenizer(checkpoint.vocab).encode(text), np.int32)
            executor = NativeExecutor(
                checkpoint, num_blocks=-(-options.window // BLOCK_TOKENS), num_threads=options.threads
            )
        sources.append(ExecutorLogits(executor))
    cuts = range(0, options.chunks * options.window, options.window)
    windows = [Window(f"{start}", token_ids[start : start + options.window]) for start in cuts]
    kl, same = [], []
    for window in windows:
        scores: Scores = measure(*sources, [window])
        kl.append(scores.kl[options.window // 2 :])
        same.append(scores.same_top[options.window // 2 :])
    together = np.concatenate(kl)
    return {
        "mean_kl": float(together.mean()),
        "p99_kl": float(np.percentile(together, 99)),
        "max_kl": float(together.max()),
        "top1_agreement": float(np.concatenate(same).mean()),
    }


if __name__ == "__main__":
    main()
