"""Float32 to the simple stored formats: what random models and tests need, not a tool for good quantisation.

Layouts are drawn in `dequantize.py`. The K formats are only read, never written.
"""

import numpy as np
from numpy.typing import NDArray

from halfline.model.checkpoint import Tensor, TensorFormat

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


def quantize(name: str, values: Floats, format: TensorFormat) -> Tensor:
    """A tensor holding `values`, a vector or a matrix [out, in], rounded to the nearest the format can say.

    Raises ValueError for a format that is not written, or rows that are not whole blocks.
    """
    rows = np.ascontiguousarray(np.atleast_2d(values), dtype=np.float32)
    if rows.shape[1] % format.block_values:
        raise ValueError(f"a row of {rows.shape[1]} values is no multiple of {format.block_values}")
    encode = _ENCODERS.get(format)
    if encode is None:
        raise ValueError(f"{format.name} is only read, never written")
    data = encode(rows.reshape(-1, format.block_values)).reshape(rows.shape[0], -1)
    return Tensor(name, format, tuple(values.shape), data)


def _f32(blocks: Floats) -> Bytes:
    return blocks.astype("<f4").view(np.uint8)


def _f16(blocks: Floats) -> Bytes:
    return blocks.astype("<f2").view(np.uint8)


def _bf16(blocks: Floats) -> Bytes:
    """Round to nearest, ties to even, by adding just under half a unit to the bits that go."""
    bits = blocks.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return rounded.astype("<u2").view(np.uint8)


def _q8_0(blocks: Floats) -> Bytes:
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    quants = np.rint(blocks * _reciprocal(scale)).astype(np.int8)
    return np.concatenate((_f16(scale), quants.view(np.uint8)), axis=1)


def _q4_0(blocks: Floats) -> Bytes:
    """The value of largest size becomes -8, so that the extra negative step is of use."""
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1, keepdims=True), axis=1)
    scale = largest / np.float32(-8)
    quants = np.clip(np.floor(blocks * _reciprocal(scale) + np.float32(8.5)), 0, 15).astype(np.uint8)
    return np.concatenate((_f16(scale), _pack_nibbles(quants)), axis=1)


def _q4_1(blocks: Floats) -> Bytes:
    minimum = blocks.min(axis=1, keepdims=True)
    scale = (blocks.max(axis=1, keepdims=True) - minimum) / np.float32(15)
    quants = np.clip(np.rint((blocks - minimum) * _reciprocal(scale)), 0, 15).astype(np.uint8)
    return np.concatenate((_f16(scale), _f16(minimum), _pack_nibbles(quants)), axis=1)


def _reciprocal(scale: Floats) -> Floats:
    """1 / scale, and 0 for the scale of an all-zero block."""
    return np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)


def _pack_nibbles(quants: Bytes) -> Bytes:
    return quants[:, :16] | (quants[:, 16:] << np.uint8(4))


_ENCODERS = {
    TensorFormat.F32: _f32,
    TensorFormat.F16: _f16,
    TensorFormat.BF16: _bf16,
    TensorFormat.Q8_0: _q8_0,
    TensorFormat.Q4_0: _q4_0,
    TensorFormat.Q4_1: _q4_1,
}
