import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from halfline.context.compression.embeddings import quantize_prompt_emb

ROWS = arrays(np.float32, (5, 8), elements=st.floats(-60_000, 60_000, width=32))


@settings(max_examples=50)
@given(ROWS, arrays(np.bool_, 5))
def test_a_row_is_off_by_half_its_scale_and_the_scale_s_rounding_at_most(
    rows: np.ndarray, is_instruction: np.ndarray
) -> None:
    stored = quantize_prompt_emb(rows, is_instruction)
    back = stored.restore()
    assert np.array_equal(back[is_instruction], rows[is_instruction].astype(np.float16).astype(np.float32))
    others = rows[~is_instruction].astype(np.float64)
    largest = np.abs(others).max(axis=1, initial=0.0)
    # Half a step, what 127 steps of a rounded scale fall short, and a scale that float16 cannot hold.
    bound = largest / 254 + largest * 2.0**-10 + 127 * 2.0**-24
    assert (np.abs(back[~is_instruction] - others).max(axis=1, initial=0.0) <= bound).all()


def test_rows_of_zeros_come_back_as_zeros() -> None:
    stored = quantize_prompt_emb(np.zeros((3, 4)), np.array([True, False, False]))
    assert not stored.restore().any() and stored.scales.tolist() == [0.0, 0.0]


def test_bytes_are_those_of_two_precisions() -> None:
    rows = np.random.default_rng(0).normal(size=(100, 576))
    assert quantize_prompt_emb(rows, np.ones(100, bool)).num_bytes == 100 * 1152 + 13
    assert quantize_prompt_emb(rows, np.zeros(100, bool)).num_bytes == 100 * 578 + 13
    assert quantize_prompt_emb(rows, np.arange(100) < 20).num_bytes == 20 * 1152 + 80 * 578 + 13


def test_a_prompt_without_tokens_is_nothing() -> None:
    assert quantize_prompt_emb(np.zeros((0, 8)), np.zeros(0, bool)).restore().shape == (0, 8)


@pytest.mark.parametrize("value", [np.nan, np.inf, 70_000.0])
def test_what_float16_cannot_hold_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="float16"):
        quantize_prompt_emb(np.array([[1.0, value]]), np.array([False]))


def test_a_mask_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="do not agree"):
        quantize_prompt_emb(np.zeros((2, 3)), np.array([True]))
