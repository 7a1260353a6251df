"""Every weight format's matrix product against float64 with the same quantised activations."""

import numpy as np
import pytest
from random_tensor import FLOATS, random_tensor

from halfline.model.checkpoint import Tensor, TensorFormat
from halfline.model.dequantize import dequantize
from halfline.native import _native


def as_multiplied(x: np.ndarray, format: TensorFormat) -> np.ndarray:
    """The activations a format's kernel multiplies with: per 32 values int8 with one scale, or as they are."""
    if format in FLOATS:
        return x.astype(np.float64)
    blocks = x.reshape(len(x), -1, 32)
    amax = np.abs(blocks).max(axis=2, keepdims=True)
    live = amax > np.float32(1e-30)
    inverse = np.divide(np.float32(127), amax, out=np.zeros_like(amax), where=live)
    quants = np.rint(blocks * inverse)
    return (quants.astype(np.float64) * (amax / np.float32(127) * live)).reshape(x.shape)


def as_refined(x: np.ndarray, format: TensorFormat) -> np.ndarray:
    """The same with a second term: what the first left over, in int8 with a scale of its own."""
    first = as_multiplied(x, format)
    return first + as_multiplied((x - first).astype(np.float32), format)


def run_linear(
    isa: str, tensor: Tensor, x: np.ndarray, refined: np.ndarray | tuple[int, ...] = ()
) -> np.ndarray:
    outputs = np.full((len(x), tensor.shape[0]), np.nan, dtype=np.float32)
    rows = np.array(refined, dtype=np.int32)
    data = np.ascontiguousarray(tensor.data)
    _native.linear_alone(isa, tensor.format.value, tensor.shape[1], data, x, rows, outputs)
    return outputs


@pytest.mark.parametrize("format", TensorFormat)
def test_a_linear_equals_float64_for_every_number_of_rows(format: TensorFormat, isa: str) -> None:
    generator = np.random.default_rng(format.value)
    cols = 512 if format not in FLOATS else 333
    tensor = random_tensor(format, 75, cols, generator)  # the last panel has 11 of 16 rows
    weights = dequantize(tensor).astype(np.float64)
    for num_rows in (*range(1, 14), 33):
        x = generator.standard_normal((num_rows, cols)).astype(np.float32)
        x[0, :32] = 0.0  # a block without any magnitude
        outputs = run_linear(isa, tensor, x)
        multiplied = as_multiplied(x, format)
        size = np.abs(multiplied) @ np.abs(weights).T
        assert np.max(np.abs(outputs - multiplied @ weights.T) / size) < 1e-6


@pytest.mark.parametrize("format", [format for format in TensorFormat if format not in FLOATS])
def test_refined_rows_are_multiplied_in_two_terms_and_no_others(format: TensorFormat, isa: str) -> None:
    generator = np.random.default_rng(format.value)
    tensor = random_tensor(format, 75, 512, generator)
    weights = dequantize(tensor).astype(np.float64)
    for num_rows in (1, 2, 5, 8, 33):
        x = generator.standard_normal((num_rows, 512)).astype(np.float32)
        x[0, :32] = 0.0
        refined = generator.permutation(num_rows)[: generator.integers(1, num_rows + 1)]
        outputs, plain = run_linear(isa, tensor, x, refined), run_linear(isa, tensor, x)
        multiplied = as_refined(x[refined], format)
        size = np.abs(multiplied) @ np.abs(weights).T
        assert np.max(np.abs(outputs[refined] - multiplied @ weights.T) / size) < 1e-6
        assert np.max(np.abs(multiplied - x[refined])) < 2e-4  # and that is close to the exact product
        others = np.setdiff1d(np.arange(num_rows), refined)
        np.testing.assert_array_equal(outputs[others], plain[others])


@pytest.mark.parametrize("format", TensorFormat)
def test_extreme_activations_and_quants_do_not_saturate(format: TensorFormat, isa: str) -> None:
    generator = np.random.default_rng(1)
    tensor = random_tensor(format, 32, 256, generator)
    data = np.ascontiguousarray(tensor.data)
    if format is TensorFormat.Q8_0:
        data.reshape(32, -1, 34)[:, :, 2:] = 0x80  # -128 everywhere
    elif format not in FLOATS:
        tail = {
            TensorFormat.Q4_0: 2,
            TensorFormat.Q4_1: 4,
            TensorFormat.Q5_0: 2,
            TensorFormat.Q5_1: 4,
        }.get(format, 16)
        data.reshape(32, -1, format.block_bytes)[:, :, tail:192] = 0xFF
    tensor = Tensor("test.weight", format, (32, 256), data)
    weights = dequantize(tensor).astype(np.float64)
    for sign in (1.0, -1.0):
        x = np.full((7, 256), sign, dtype=np.float32)
        outputs = run_linear(isa, tensor, x)
        multiplied = as_multiplied(x, format)
        size = np.abs(multiplied) @ np.abs(weights).T
        assert np.max(np.abs(outputs - multiplied @ weights.T) / size) < 1e-6


@pytest.mark.parametrize("format", TensorFormat)
def test_a_linear_is_bitwise_the_same_on_every_instruction_path(format: TensorFormat) -> None:
    generator = np.random.default_rng(2)
    tensor = random_tensor(format, 40, 256, generator)
    for num_rows in (9, 16, 45):  # a part of a tile of 16 rows, one tile and a few more, several
        x = generator.standard_normal((num_rows, 256)).astype(np.float32)
        results = [run_linear(isa, tensor, x, (0, 7, 8)) for isa in _native.available_isas()]
        for other in results[1:]:
            np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize("format", TensorFormat)
def test_a_row_alone_is_bitwise_what_it_is_among_others_whatever_the_shape_and_the_path(
    format: TensorFormat,
) -> None:
    generator = np.random.default_rng(format.value)
    for _ in range(12):
        num_outputs, num_rows = generator.integers(1, 60), generator.integers(9, 81)
        cols = (
            generator.integers(1, 200) if format in FLOATS else format.block_values * generator.integers(1, 4)
        )
        tensor = random_tensor(format, num_outputs, cols, generator)
        x = generator.standard_normal((num_rows, cols)).astype(np.float32)
        refined = generator.permutation(num_rows)[: generator.integers(0, num_rows + 1)]
        found = [run_linear(isa, tensor, x, refined) for isa in _native.available_isas()]
        for row in generator.permutation(num_rows)[:12]:
            second_term = (0,) if row in refined else ()
            alone = run_linear(_native.available_isas()[0], tensor, x[row : row + 1], second_term)[0]
            for outputs in found:
                np.testing.assert_array_equal(outputs[row], alone)
