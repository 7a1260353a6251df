"""Batches of random tokens, and how long an executor takes for them.

Sequence number i keeps its KV in blocks of its own, from `i * blocks` on. Token ids are random, as in llama-bench,
since the arithmetic is the same for every text; only greedy steps take the tokens that come of them.
"""

import time
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from halfline.model.executor import BLOCK_TOKENS, CAUSAL, Batch, Executor, GreedyDecoder, GreedyRun, Outputs

Int32s = NDArray[np.int32]
Kind = Literal["logits", "hidden", "choices"]


def random_tokens(executor: Executor, count: int, seed: int = 0) -> Int32s:
    generator = np.random.default_rng(seed)
    return generator.integers(0, executor.spec.vocab_size, count).astype(np.int32)


def batch_of(
    token_ids: Int32s,
    num_sequences: int,
    first_place: int,
    num_blocks: int,
    *,
    first_block: int = 0,
    wanted: Kind = "logits",
) -> Batch:
    """`token_ids` cut into sequences of equal length that all start at `first_place`.

    Each sequence owns `num_blocks` blocks, the first sequence those from `first_block` on. The last row of each is
    asked for its logits, its hidden state, or its token.
    """
    length = len(token_ids) // num_sequences
    last_rows = np.arange(1, num_sequences + 1, dtype=np.int32) * length - 1
    nothing = np.array([], dtype=np.int32)
    blocks = np.arange(first_block, first_block + num_sequences * num_blocks, dtype=np.int32)
    return Batch(
        token_ids=token_ids,
        row_starts=np.arange(num_sequences + 1, dtype=np.int32) * length,
        first_places=np.full(num_sequences, first_place, dtype=np.int32),
        block_tables=blocks.reshape(num_sequences, num_blocks),
        masks=[CAUSAL] * num_sequences,
        logit_rows=last_rows if wanted == "logits" else nothing,
        hidden_rows=last_rows if wanted == "hidden" else nothing,
        choice_rows=last_rows if wanted == "choices" else nothing,
    )


def fill(executor: Executor, num_sequences: int, length: int, num_blocks: int) -> None:
    """Write the KV of places [0, length) of every sequence, one sequence per step."""
    tokens = random_tokens(executor, num_sequences * length)
    for sequence in range(num_sequences):
        row = tokens[sequence * length : (sequence + 1) * length]
        executor.run(batch_of(row, 1, 0, num_blocks, first_block=sequence * num_blocks))


def decode_seconds(
    executor: Executor,
    *,
    num_sequences: int,
    first_place: int,
    steps: int,
    wanted: Kind = "logits",
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Time of `steps` steps of one token per sequence; the places before `first_place` hold KV already.

    Where tokens are wanted, a step goes on with those of the step before.
    """
    num_blocks = blocks_for(first_place + steps)
    tokens = random_tokens(executor, steps * num_sequences).reshape(steps, num_sequences)
    outputs: Outputs | None = None
    began = clock()
    for step, row in enumerate(tokens):
        if wanted == "choices" and outputs is not None and outputs.choices is not None:
            row = outputs.choices
        outputs = executor.run(batch_of(row, num_sequences, first_place + step, num_blocks, wanted=wanted))
    return clock() - began


def greedy_seconds(
    decoder: GreedyDecoder, *, first_place: int, steps: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Time of `steps` greedy steps of one sequence in one call; the places before `first_place` hold KV already."""
    table = np.arange(blocks_for(first_place + steps), dtype=np.int32)
    began = clock()
    decoder.decode(GreedyRun(token_id=0, place=first_place, block_table=table, max_tokens=steps))
    return clock() - began


def prefill_seconds(
    executor: Executor,
    num_tokens: int,
    *,
    first_block: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Time of one step of `num_tokens` new tokens of one sequence, from place 0."""
    tokens = random_tokens(executor, num_tokens)
    batch = batch_of(tokens, 1, 0, blocks_for(num_tokens), first_block=first_block)
    return run_seconds(executor, batch, clock=clock)


def run_seconds(executor: Executor, batch: Batch, *, clock: Callable[[], float] = time.perf_counter) -> float:
    """Time of one step."""
    began = clock()
    executor.run(batch)
    return clock() - began


def blocks_for(num_tokens: int) -> int:
    return -(-num_tokens // BLOCK_TOKENS)
