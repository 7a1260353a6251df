import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf import dequantize as oracle_dequantize
from hypothesis import given, settings
from hypothesis import strategies as st
from random_tensor import SCALES_AT

from halfline.model.checkpoint import Tensor, TensorFormat
from halfline.model.dequantize import dequantize, dequantize_rows

# Zero, one, the largest and smallest halves, a subnormal, negatives, infinities and not-a-number.
EDGE_SCALES = np.array(
    [0x0000, 0x3C00, 0x7BFF, 0x0400, 0x0001, 0x83FF, 0xBC00, 0x7C00, 0xFC00, 0x7E00], "<u2"
)


def random_tensor(tensor_format: TensorFormat, num_rows: int, blocks_per_row: int, seed: int) -> Tensor:
    row_bytes = blocks_per_row * tensor_format.block_bytes
    data = np.random.default_rng(seed).integers(0, 256, (num_rows, row_bytes), dtype=np.uint8)
    return Tensor("t", tensor_format, (num_rows, blocks_per_row * tensor_format.block_values), data)


def oracle(tensor: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    with np.errstate(invalid="ignore"):
        values = oracle_dequantize(tensor.data, GGMLQuantizationType(tensor.format.value))
    return np.asarray(values).reshape(tensor.shape)


@pytest.mark.parametrize("tensor_format", TensorFormat)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), num_rows=st.integers(1, 5), blocks_per_row=st.integers(1, 4))
def test_any_bytes_mean_bitwise_what_they_mean_elsewhere(
    tensor_format: TensorFormat, seed: int, num_rows: int, blocks_per_row: int
) -> None:
    tensor = random_tensor(tensor_format, num_rows, blocks_per_row, seed)
    np.testing.assert_array_equal(dequantize(tensor).view(np.uint32), oracle(tensor).view(np.uint32))


@pytest.mark.parametrize("tensor_format", SCALES_AT)
def test_edge_scales_mean_bitwise_what_they_mean_elsewhere(tensor_format: TensorFormat) -> None:
    tensor = random_tensor(tensor_format, len(EDGE_SCALES), 1, seed=5)
    for offset in SCALES_AT[tensor_format]:
        tensor.data[:, offset : offset + 2] = EDGE_SCALES.view(np.uint8).reshape(-1, 2)
        np.testing.assert_array_equal(dequantize(tensor).view(np.uint32), oracle(tensor).view(np.uint32))


@pytest.mark.parametrize("tensor_format", TensorFormat)
def test_rows_converted_alone_are_those_of_the_whole(tensor_format: TensorFormat) -> None:
    tensor = random_tensor(tensor_format, 7, 2, seed=1)
    rows = np.array([6, 0, 0, 3])
    np.testing.assert_array_equal(dequantize_rows(tensor, rows), dequantize(tensor)[rows])


def test_a_large_tensor_is_converted_in_pieces_that_fit_together() -> None:
    tensor = random_tensor(TensorFormat.Q8_0, 3000, 16, seed=2)  # 1.5 million values: more than one piece
    np.testing.assert_array_equal(dequantize(tensor), oracle(tensor))


def test_a_vector_keeps_its_shape() -> None:
    values = np.arange(5, dtype=np.float32)
    tensor = Tensor("bias", TensorFormat.F32, (5,), values.view(np.uint8).reshape(1, -1))
    np.testing.assert_array_equal(dequantize(tensor), values)
