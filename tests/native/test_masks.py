"""Masks against the dense definition, for every length up to 64."""

from collections.abc import Callable

import numpy as np
import pytest

from halfline.model.executor import CAUSAL, Batch, Mask
from halfline.model.random_model import random_checkpoint
from halfline.model.reference import ReferenceExecutor
from halfline.native.executor import NativeExecutor

MAX_LENGTH = 64
CHECKPOINT = random_checkpoint(num_layers=1, hidden_size=32, num_heads=2, num_kv_heads=1, ffn_size=32)
BANDS = [
    CAUSAL,
    Mask(window=1),
    Mask(window=5),
    Mask(window=16),
    Mask(window=17, num_sinks=1),
    Mask(window=9, num_sinks=20),
    Mask(window=33, num_sinks=4),
    Mask(window=100, num_sinks=4),
]


def assert_follows(actual: np.ndarray, expected: np.ndarray) -> None:
    assert np.abs(actual - expected).max() < 4e-3 * np.abs(expected).max()  # KV is float16


@pytest.mark.parametrize("mask", BANDS, ids=str)
def test_a_band_is_the_dense_mask_at_every_length(
    mask: Mask, isa: str, one_sequence: Callable[..., Batch]
) -> None:
    token_ids = np.random.default_rng(0).integers(0, 256, MAX_LENGTH).astype(np.int32)
    expected = ReferenceExecutor(CHECKPOINT, 4).run(one_sequence(token_ids, 0, mask))
    assert expected is not None
    stepped = NativeExecutor(CHECKPOINT, num_blocks=4, isa=isa)
    steps = []
    for length in range(1, MAX_LENGTH + 1):
        whole = NativeExecutor(CHECKPOINT, num_blocks=4, isa=isa, num_threads=1).run(
            one_sequence(token_ids[:length], 0, mask)
        )
        step = stepped.run(one_sequence(token_ids[length - 1 : length], length - 1, mask))
        assert whole is not None and step is not None
        steps.append(step.logits)
        assert_follows(whole.logits, expected.logits[:length])
        np.testing.assert_array_equal(np.concatenate(steps), whole.logits)


@pytest.mark.parametrize("prefix", [1, 2, 15, 16, 17, 32, 40, 64])
def test_a_prefix_sees_itself_both_ways_at_every_length(
    prefix: int, isa: str, one_sequence: Callable[..., Batch]
) -> None:
    token_ids = np.random.default_rng(1).integers(0, 256, MAX_LENGTH).astype(np.int32)
    mask = Mask(prefix=prefix)
    stepped = NativeExecutor(CHECKPOINT, num_blocks=4, isa=isa)
    steps = [stepped.run(one_sequence(token_ids[:prefix], 0, mask))]
    for length in range(prefix, MAX_LENGTH + 1):
        if length > prefix:
            steps.append(stepped.run(one_sequence(token_ids[length - 1 : length], length - 1, mask)))
        batch = one_sequence(token_ids[:length], 0, mask)
        whole = NativeExecutor(CHECKPOINT, num_blocks=4, isa=isa, num_threads=1).run(batch)
        expected = ReferenceExecutor(CHECKPOINT, 4).run(batch)
        assert whole is not None and expected is not None
        assert_follows(whole.logits, expected.logits)
        np.testing.assert_array_equal(np.concatenate([step.logits for step in steps if step]), whole.logits)


@pytest.mark.parametrize("mask", [Mask(window=20, num_sinks=5), Mask(window=70, num_sinks=70)], ids=str)
def test_sinks_far_before_the_band_are_seen(mask: Mask, isa: str, one_sequence: Callable[..., Batch]) -> None:
    """Kernels look at 64 places at a time, and pass over those between the sinks and the band."""
    token_ids = np.random.default_rng(2).integers(0, 256, 260).astype(np.int32)
    expected = ReferenceExecutor(CHECKPOINT, 17).run(one_sequence(token_ids, 0, mask))
    executor = NativeExecutor(CHECKPOINT, num_blocks=17, isa=isa)
    steps = [
        executor.run(one_sequence(token_ids[start:stop], start, mask))
        for start, stop in ((0, 145), (145, 146), (146, 258), (258, 259), (259, 260))
    ]
    assert expected is not None
    logits = np.concatenate([step.logits for step in steps if step is not None])
    assert_follows(logits, expected.logits)


def test_blocks_far_behind_the_band_are_not_touched() -> None:
    """They hold NaN, which would spread."""
    executor = NativeExecutor(CHECKPOINT, num_blocks=32)
    executor.import_blocks(range(32), np.full((32, executor.block_bytes), 0xFF, dtype=np.uint8))
    for first_place in (464, 480):
        outputs = executor.run(
            Batch(
                token_ids=np.arange(16, dtype=np.int32),
                row_starts=np.array([0, 16], dtype=np.int32),
                first_places=np.array([first_place], dtype=np.int32),
                block_tables=np.arange(32, dtype=np.int32)[None],
                masks=[Mask(window=8)],
                logit_rows=np.arange(16, dtype=np.int32),
                hidden_rows=np.array([], dtype=np.int32),
            )
        )
    assert outputs is not None and np.isfinite(outputs.logits).all()
