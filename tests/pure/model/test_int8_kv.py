"""The int8 format's specification: how far it rounds, and that no cutting of a sequence changes it."""

from itertools import pairwise

import numpy as np
import pytest

from halfline.model.executor import CAUSAL, Batch, Mask
from halfline.model.int8_kv import Int8KvReference, rounded_per_channel, rounded_per_place
from halfline.model.kv_format import INT8
from halfline.model.random_model import random_checkpoint
from halfline.model.reference import Array, ReferenceExecutor

LENGTH = 70


def batch(start: int, stop: int, mask: Mask = CAUSAL) -> Batch:
    token_ids = np.random.default_rng(2).integers(0, 256, LENGTH).astype(np.int32)
    rows = np.arange(stop - start, dtype=np.int32)
    return Batch(
        token_ids=token_ids[start:stop],
        row_starts=np.array([0, len(rows)], np.int32),
        first_places=np.array([start], np.int32),
        block_tables=np.arange(INT8.num_blocks(LENGTH), dtype=np.int32)[None],
        masks=[mask],
        logit_rows=rows,
        hidden_rows=rows,
    )


def logits(executor: ReferenceExecutor, cuts: list[int], mask: Mask = CAUSAL) -> Array:
    pieces = [executor.run(batch(start, stop, mask)) for start, stop in pairwise(cuts)]
    return np.concatenate([piece.logits for piece in pieces if piece is not None]).astype(np.float64)


@pytest.mark.parametrize("rounded", [rounded_per_place, rounded_per_channel])
def test_a_number_moves_by_at_most_half_a_255th_of_its_scales_range(rounded: object) -> None:
    x = np.random.default_rng(0).standard_normal((32, 3, 16))
    x[5] = 0.0
    assert callable(rounded)
    assert np.abs(rounded(x) - x).max() <= 0.5 * np.abs(x).max() / 127
    np.testing.assert_array_equal(rounded(np.zeros((16, 1, 16))), 0.0)


def test_a_scale_belongs_to_one_place_or_to_one_channel() -> None:
    x = np.full((16, 1, 4), 1.0)
    x[3, 0, 2] = 127.0 * 3
    coarse = rounded_per_place(x) != x
    np.testing.assert_array_equal(np.unique(np.nonzero(coarse)[0]), [3])
    coarse = rounded_per_channel(x) != x
    np.testing.assert_array_equal(np.unique(np.nonzero(coarse)[2]), [2])


@pytest.mark.parametrize("cuts", [[0, 1, 17, 40, LENGTH], [0, 16, 32, LENGTH], [0, *range(20, LENGTH + 1)]])
def test_every_cutting_gives_the_same_to_float64_rounding(cuts: list[int]) -> None:
    checkpoint = random_checkpoint()
    whole = logits(Int8KvReference(checkpoint, 8), [0, LENGTH])
    np.testing.assert_allclose(logits(Int8KvReference(checkpoint, 8), cuts), whole, rtol=0, atol=1e-5)


def test_rows_of_the_first_block_see_no_int8_and_later_ones_do() -> None:
    checkpoint = random_checkpoint()
    exact = logits(ReferenceExecutor(checkpoint, 8), [0, LENGTH])
    rounded = logits(Int8KvReference(checkpoint, 8), [0, LENGTH])
    differences = np.abs(exact - rounded).max(axis=1)
    assert differences[:16].max() < 0.2 * differences[16:].max()  # fp16 alone
    assert differences[16:].max() < 0.1 * np.abs(exact).max()
