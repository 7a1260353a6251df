"""Whole models of every quantised format: the same bits on every instruction path, however a text is cut and shared."""

from collections.abc import Callable

import numpy as np
import pytest
from random_layers import random_layers
from random_tensor import FLOATS

from halfline.model.checkpoint import TensorFormat
from halfline.model.executor import BLOCK_TOKENS, CAUSAL, Batch
from halfline.native.executor import NativeExecutor, available_isas

LENGTH = 70
NUM_BLOCKS = 40
HELD_BLOCKS = 2
MATE_LENGTHS = [1, 19, 3, 40]  # of the sequences in front of the text and behind it, two each


def tokens() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, LENGTH).astype(np.int32)


def logits_of(executor: NativeExecutor, batch: Batch) -> np.ndarray:
    outputs = executor.run(batch)
    assert outputs is not None
    return outputs.logits


def behind_held_blocks() -> Batch:
    """The text's rows behind its first blocks, which are there, in blocks of their own."""
    first = HELD_BLOCKS * BLOCK_TOKENS
    count = LENGTH - first
    table = np.array([*range(HELD_BLOCKS), *range(20, 20 + -(-count // BLOCK_TOKENS))], dtype=np.int32)
    return Batch(
        token_ids=tokens()[first:],
        row_starts=np.array([0, count], dtype=np.int32),
        first_places=np.array([first], dtype=np.int32),
        block_tables=table[None],
        masks=[CAUSAL],
        logit_rows=np.arange(count, dtype=np.int32),
        hidden_rows=np.array([], dtype=np.int32),
    )


def among_others() -> Batch:
    """The whole text between other texts, all from place 0; only its logits are wanted."""
    lengths = [*MATE_LENGTHS[:2], LENGTH, *MATE_LENGTHS[2:]]
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    token_ids = np.random.default_rng(4).integers(0, 256, starts[-1]).astype(np.int32)
    token_ids[starts[2] : starts[3]] = tokens()
    blocks_each = -(-LENGTH // BLOCK_TOKENS)
    return Batch(
        token_ids=token_ids,
        row_starts=starts,
        first_places=np.zeros(len(lengths), dtype=np.int32),
        block_tables=np.arange(len(lengths) * blocks_each, dtype=np.int32).reshape(len(lengths), -1),
        masks=[CAUSAL] * len(lengths),
        logit_rows=np.arange(starts[2], starts[3], dtype=np.int32),
        hidden_rows=np.array([], dtype=np.int32),
    )


@pytest.mark.parametrize("format", [format for format in TensorFormat if format not in FLOATS])
def test_a_text_gets_the_same_bits_cold_in_chunks_behind_held_blocks_and_among_others_on_every_path(
    format: TensorFormat, one_sequence: Callable[..., Batch]
) -> None:
    checkpoint = random_layers(format)
    best, *_ = available_isas()
    expected = logits_of(
        NativeExecutor(checkpoint, num_blocks=NUM_BLOCKS, isa=best, num_threads=1), one_sequence(tokens())
    )
    assert np.isfinite(expected).all() and expected.std() > 0
    for isa in available_isas():
        executor = NativeExecutor(checkpoint, num_blocks=NUM_BLOCKS, isa=isa, num_threads=2)
        np.testing.assert_array_equal(logits_of(executor, one_sequence(tokens())), expected)
        held = logits_of(executor, behind_held_blocks())
        np.testing.assert_array_equal(held, expected[HELD_BLOCKS * BLOCK_TOKENS :])
        np.testing.assert_array_equal(logits_of(executor, among_others()), expected)
        for chunk in (1, 13, 33):
            parts = [
                logits_of(executor, one_sequence(tokens()[start : start + chunk], start))
                for start in range(0, LENGTH, chunk)
            ]
            np.testing.assert_array_equal(np.concatenate(parts), expected)
