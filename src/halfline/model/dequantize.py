"""Stored numbers to float32, one small function per format; the inverse of `quantize.py`.

Blocks run along a row. All layouts are little-endian; nibbles of the 32-value formats hold value i in the low half
and value i + 16 in the high half of byte i. The order of float32 operations is part of the format's meaning: it
decides the last bit, so it is the one every other reader uses.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from halfline.model.checkpoint import Tensor, TensorFormat

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

# Working memory of a conversion is a few times this, whatever the tensor's size.
_CHUNK_VALUES = 1 << 20


def dequantize(tensor: Tensor) -> Floats:
    """All values, float32 of the tensor's shape. Converted in chunks of rows, so only the result is large."""
    values = np.empty((tensor.data.shape[0], tensor.shape[-1]), dtype=np.float32)
    for start, stop in _row_chunks(tensor):
        values[start:stop] = dequantize_rows(tensor, slice(start, stop))
    return values.reshape(tensor.shape)


def dequantize_rows(tensor: Tensor, rows: slice | NDArray[np.integer]) -> Floats:
    """Only these rows, float32 [rows, columns]: an embedding lookup needs no more."""
    data = tensor.data[rows]
    blocks = data.reshape(-1, tensor.format.block_bytes)
    # A damaged file may hold scales that are not numbers; that is for whoever reads the logits to notice.
    with np.errstate(invalid="ignore"):
        values = _DECODERS[tensor.format](blocks)
    return values.reshape(data.shape[0], tensor.shape[-1])


def _row_chunks(tensor: Tensor) -> Iterator[tuple[int, int]]:
    num_rows = tensor.data.shape[0]
    step = max(1, _CHUNK_VALUES // tensor.shape[-1])
    return ((start, min(start + step, num_rows)) for start in range(0, num_rows, step))


def _f32(blocks: Bytes) -> Floats:
    return blocks.view("<f4").astype(np.float32)


def _f16(blocks: Bytes) -> Floats:
    return blocks.view("<f2").astype(np.float32)


def _bf16(blocks: Bytes) -> Floats:
    """The upper half of a float32."""
    return (blocks.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)


def _q8_0(blocks: Bytes) -> Floats:
    """scale f16 | 32 x i8"""
    return blocks[:, 2:].view(np.int8).astype(np.float32) * _f16(blocks[:, 0:2])


def _q4_0(blocks: Bytes) -> Floats:
    """scale f16 | 16 bytes of nibbles, offset by 8"""
    return _f16(blocks[:, 0:2]) * (_nibbles(blocks[:, 2:]).astype(np.float32) - np.float32(8))


def _q4_1(blocks: Bytes) -> Floats:
    """scale f16 | minimum f16 | 16 bytes of nibbles"""
    return _f16(blocks[:, 0:2]) * _nibbles(blocks[:, 4:]).astype(np.float32) + _f16(blocks[:, 2:4])


def _q5_0(blocks: Bytes) -> Floats:
    """scale f16 | 32 high bits | 16 bytes of nibbles, offset by 16"""
    return _f16(blocks[:, 0:2]) * (_five_bits(blocks[:, 2:]).astype(np.float32) - np.float32(16))


def _q5_1(blocks: Bytes) -> Floats:
    """scale f16 | minimum f16 | 32 high bits | 16 bytes of nibbles"""
    return _f16(blocks[:, 0:2]) * _five_bits(blocks[:, 4:]).astype(np.float32) + _f16(blocks[:, 2:4])


def _q4_k(blocks: Bytes) -> Floats:
    """scale f16 | minimum f16 | 12 bytes: 8 x 6-bit scales and minima | 4 x 32 bytes of nibbles

    Each 32 bytes hold two of the eight sub-blocks, one in the low and one in the high nibbles.
    """
    scales, minima = _sub_scales(blocks)
    quants = _nibbles(blocks[:, 16:144].reshape(-1, 32)).reshape(-1, 8, 32).astype(np.float32)
    return (scales * quants - minima).reshape(-1, 256)


def _q5_k(blocks: Bytes) -> Floats:
    """As Q4_K, with 32 bytes between: bit s of byte i is the fifth bit of value i in sub-block s."""
    scales, minima = _sub_scales(blocks)
    low = _nibbles(blocks[:, 48:176].reshape(-1, 32)).reshape(-1, 8, 32)
    high = (blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None]) & np.uint8(1)
    quants = (low | (high << np.uint8(4))).astype(np.float32)
    return (scales * quants - minima).reshape(-1, 256)


def _q6_k(blocks: Bytes) -> Floats:
    """128 bytes of low nibbles | 64 bytes of upper bit pairs | 16 x i8 scales | scale f16

    Per half of 128 values: 64 bytes of nibbles (low halves first) and 32 bytes of four bit pairs; offset by 32.
    """
    low = _nibbles(blocks[:, 0:128].reshape(-1, 64)).reshape(-1, 2, 4, 32)
    pairs = blocks[:, 128:192].reshape(-1, 2, 1, 32)
    high = (pairs >> np.arange(0, 8, 2, dtype=np.uint8)[:, None]) & np.uint8(3)
    quants = (low | (high << np.uint8(4))).reshape(-1, 16, 16).astype(np.float32) - np.float32(32)
    scales = _f16(blocks[:, 208:210]) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    return (scales[:, :, None] * quants).reshape(-1, 256)


def _nibbles(data: Bytes) -> Bytes:
    """[n, bytes] to [n, 2 * bytes]: all low nibbles, then all high ones."""
    return np.concatenate((data & np.uint8(15), data >> np.uint8(4)), axis=1)


def _five_bits(data: Bytes) -> Bytes:
    """[n, 4 + 16] to [n, 32]: bit i of the first four bytes is the fifth bit of value i."""
    high = np.unpackbits(data[:, :4], axis=1, bitorder="little")
    return _nibbles(data[:, 4:]) | (high << np.uint8(4))


def _sub_scales(blocks: Bytes) -> tuple[Floats, Floats]:
    """Scales and minima of the eight sub-blocks, each float32 [blocks, 8, 1].

    Of the 12 packed bytes, 0-3 hold scales 0-3 and 4-7 minima 0-3 in their lower six bits; scales and minima 4-7
    have their low nibbles in the halves of bytes 8-11 and their upper two bits on top of bytes 0-3 and 4-7.
    """
    first, second, third = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    upper = np.uint8(0x30)
    scales = (first & np.uint8(63), (third & np.uint8(15)) | ((first >> np.uint8(2)) & upper))
    minima = (second & np.uint8(63), (third >> np.uint8(4)) | ((second >> np.uint8(2)) & upper))
    scale = _f16(blocks[:, 0:2]) * np.concatenate(scales, axis=1).astype(np.float32)
    minimum = _f16(blocks[:, 2:4]) * np.concatenate(minima, axis=1).astype(np.float32)
    return scale[:, :, None], minimum[:, :, None]


_DECODERS: dict[TensorFormat, Callable[[Bytes], Floats]] = {
    TensorFormat.F32: _f32,
    TensorFormat.F16: _f16,
    TensorFormat.BF16: _bf16,
    TensorFormat.Q8_0: _q8_0,
    TensorFormat.Q4_0: _q4_0,
    TensorFormat.Q4_1: _q4_1,
    TensorFormat.Q5_0: _q5_0,
    TensorFormat.Q5_1: _q5_1,
    TensorFormat.Q4_K: _q4_k,
    TensorFormat.Q5_K: _q5_k,
    TensorFormat.Q6_K: _q6_k,
}
