"""What it is worth that the executor chooses greedy sequences' tokens itself.

    python -m bench.choices MODEL.gguf [--rounds 16] [--threads N]

Decode steps of several sequences behind 128 random tokens, in turns: with their choices, and with all logits and the
largest of each row, as whoever samples needs them. Both go on with the tokens that come of them, which are the same.
Ratios are of neighbouring turns.
"""

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from halfline.bench.steps import Int32s, batch_of, blocks_for, fill, random_tokens
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor

NUMBERS = (1, 2, 4, 5, 6, 8, 11, 12, 16, 24, 32, 64)
_DEPTH, _STEPS = 128, 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--threads", type=int)
    asked = parser.parse_args()
    num_blocks = blocks_for(_DEPTH + _STEPS)
    checkpoint = open_checkpoint(asked.model)
    executor = NativeExecutor(checkpoint, num_blocks=max(NUMBERS) * num_blocks, num_threads=asked.threads)
    checkpoint.close()
    fill(executor, max(NUMBERS), _DEPTH, num_blocks)
    print("sequences   ms a step, choices   logits   logits / choices")
    for number in NUMBERS:
        turns = [_turn(executor, number, first=bool(index % 2)) for index in range(asked.rounds)]
        chosen, sampled = (statistics.median(each) for each in zip(*turns, strict=True))
        ratios = sorted(logits / choices for choices, logits in turns)
        quarter = len(ratios) // 4
        print(
            f"{number:9}   {chosen:19.2f}   {sampled:6.2f}   {statistics.median(ratios):.3f}"
            f" ({ratios[quarter]:.3f}-{ratios[-1 - quarter]:.3f})"
        )


def _turn(executor: NativeExecutor, number: int, *, first: bool) -> tuple[float, float]:
    """Milliseconds of a step with choices and of one with logits; the tokens must be the same."""
    times, said = {}, {}
    for chooses in (first, not first):
        times[chooses], said[chooses] = _steps(executor, number, chooses=chooses)
    np.testing.assert_array_equal(said[True], said[False])
    return times[True], times[False]


def _steps(executor: NativeExecutor, number: int, *, chooses: bool) -> tuple[float, Int32s]:
    tokens = random_tokens(executor, number)
    num_blocks = blocks_for(_DEPTH + _STEPS)
    began = time.perf_counter()
    for step in range(_STEPS):
        batch = batch_of(tokens, number, _DEPTH + step, num_blocks, wanted="choices" if chooses else "logits")
        outputs = executor.run(batch if chooses else replace(batch, top_k=1))
        assert outputs is not None
        if chooses:
            assert outputs.choices is not None
            tokens = outputs.choices
        else:
            assert outputs.top is not None
            tokens = outputs.top.ids[:, 0].copy()
    return (time.perf_counter() - began) / _STEPS * 1e3, tokens


if __name__ == "__main__":
    main()
