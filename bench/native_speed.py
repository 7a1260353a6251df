"""How fast the CPU executor reads and writes, beside llama.cpp's llama-bench in the same minutes.

Prefill: one step of 512 new tokens from place 0. Decode: one token per step, 64 steps, behind 512 tokens. llama-bench
measures its decode at that depth too (`-d 512`). Every round runs ours, then each peer file; medians over the rounds.

What physics allows: a decode step reads every weight once, so its floor is `weight_bytes` over the memory's bandwidth;
prefill does two operations per weight and token, so its floor is set by the cores' multiply rate.

    python bench/native_speed.py MODEL.gguf --peer LLAMA_BENCH [--peer-model OTHER.gguf ...] [--threads 2] [--rounds 5]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from halfline.model.executor import BLOCK_TOKENS, CAUSAL, Batch
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor

PREFILL, DECODE = 512, 64
NUM_BLOCKS = (PREFILL + DECODE) // BLOCK_TOKENS + 1


def step(executor: NativeExecutor, tokens: np.ndarray, first_place: int) -> None:
    count = len(tokens)
    executor.run(
        Batch(
            token_ids=tokens,
            row_starts=np.array([0, count], dtype=np.int32),
            first_places=np.array([first_place], dtype=np.int32),
            block_tables=np.arange(NUM_BLOCKS, dtype=np.int32)[None],
            masks=[CAUSAL],
            logit_rows=np.array([count - 1], dtype=np.int32),
            hidden_rows=np.array([], dtype=np.int32),
        )
    )


def ours(executor: NativeExecutor) -> tuple[float, float]:
    """Tokens per second of prefill and of decode, one round."""
    tokens = np.random.default_rng(0).integers(0, executor.spec.vocab_size, PREFILL + DECODE).astype(np.int32)
    began = time.perf_counter()
    step(executor, tokens[:PREFILL], 0)
    middle = time.perf_counter()
    for place in range(PREFILL, PREFILL + DECODE):
        step(executor, tokens[place : place + 1], place)
    ended = time.perf_counter()
    return PREFILL / (middle - began), DECODE / (ended - middle)


def peer(binary: Path, model: Path, threads: int) -> tuple[float, float]:
    command = [str(binary), "-m", str(model), "-t", str(threads), "-r", "1", "-o", "json"]
    environment = os.environ | {"LD_LIBRARY_PATH": str(binary.parent)}
    rates = []
    for workload in (["-p", str(PREFILL), "-n", "0"], ["-p", "0", "-n", str(DECODE), "-d", str(PREFILL)]):
        result = subprocess.run(
            command + workload, env=environment, capture_output=True, text=True, check=True
        )
        rates.append(float(json.loads(result.stdout)[0]["avg_ts"]))
    return rates[0], rates[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--peer", type=Path, help="llama-bench")
    parser.add_argument("--peer-model", type=Path, action="append", default=[])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--isa")
    options = parser.parse_args()

    executor = NativeExecutor(
        open_checkpoint(options.model), num_blocks=NUM_BLOCKS, num_threads=options.threads, isa=options.isa
    )
    rates: dict[str, list[tuple[float, float]]] = {f"halfline {options.model.name}": []}
    ours(executor)  # touches the arena and the weights
    for _ in range(options.rounds):
        rates[f"halfline {options.model.name}"].append(ours(executor))
        if options.peer:
            for model in [options.model, *options.peer_model]:
                rates.setdefault(f"llama.cpp {model.name}", []).append(
                    peer(options.peer, model, options.threads)
                )
    load = os.getloadavg()[0]
    print(f"{executor.isa}, {options.threads} threads, {options.rounds} rounds, load average {load:.1f}")
    print(f"{'tokens/s, median (min-max)':48} {'prefill ' + str(PREFILL):>24} {'decode ' + str(DECODE):>24}")
    for name, pairs in rates.items():
        cells = [
            f"{statistics.median(values):8.1f} ({min(values):.0f}-{max(values):.0f})"
            for values in zip(*pairs, strict=True)
        ]
        print(f"{name:48} {cells[0]:>24} {cells[1]:>24}")
    json.dump(
        {
            "isa": executor.isa,
            "threads": options.threads,
            "load": load,
            "weight_bytes": executor.weight_bytes,
            "tokens_per_s": rates,
        },
        sys.stdout,
    )
    print()


if __name__ == "__main__":
    main()
