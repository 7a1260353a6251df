import numpy as np
import pytest

from halfline.model.checkpoint import TensorFormat
from halfline.model.dequantize import dequantize
from halfline.model.quantize import quantize

WRITTEN = [
    TensorFormat.F32,
    TensorFormat.F16,
    TensorFormat.BF16,
    TensorFormat.Q8_0,
    TensorFormat.Q4_0,
    TensorFormat.Q4_1,
]
# Half a step of each format, as a share of the largest value of a block (of its range for Q4_1).
WORST_ERROR = dict(zip(WRITTEN, [0.0, 2**-11, 2**-8, 0.0045, 0.13, 0.07], strict=True))


@pytest.mark.parametrize("tensor_format", WRITTEN)
def test_what_is_written_reads_back_within_half_a_step(tensor_format: TensorFormat) -> None:
    values = np.random.default_rng(0).standard_normal((6, 64)).astype(np.float32)
    tensor = quantize("w", values, tensor_format)
    assert tensor.shape == (6, 64)
    assert tensor.data.shape == (6, 64 // tensor_format.block_values * tensor_format.block_bytes)
    error = np.abs(dequantize(tensor) - values).reshape(-1, 32).max(axis=1)
    assert np.all(error <= WORST_ERROR[tensor_format] * np.abs(values).reshape(-1, 32).max(axis=1))


@pytest.mark.parametrize("tensor_format", WRITTEN)
@pytest.mark.parametrize("constant", [0.0, 1.0, -2.0])
def test_a_constant_block_is_kept(tensor_format: TensorFormat, constant: float) -> None:
    values = np.full((1, 32), constant, dtype=np.float32)
    np.testing.assert_allclose(dequantize(quantize("w", values, tensor_format)), values, rtol=2e-3)


def test_a_row_that_is_no_whole_number_of_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="48 values is no multiple of 32"):
        quantize("w", np.zeros((2, 48), dtype=np.float32), TensorFormat.Q4_0)


def test_formats_that_are_only_read_are_refused() -> None:
    with pytest.raises(ValueError, match="Q4_K is only read"):
        quantize("w", np.zeros((1, 256), dtype=np.float32), TensorFormat.Q4_K)
