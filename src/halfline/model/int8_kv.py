"""KV in int8, as a specification in float64: what is rounded, and who reads which.

Of a block's fp16 numbers K has one scale per head and dimension, V one per head and place: the largest magnitude over
127; every number becomes the nearest of the 255 multiples. A row reads the block of its own place, and what lies behind
it (a prefix that sees itself both ways), in fp16 and every earlier block in int8.

Some dimensions of K are large at all places. With one scale per place, which can be asked for here and is not what the
kernels do, they would leave few steps for the others (docs/kv.md).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from halfline.model.checkpoint import Checkpoint
from halfline.model.kv_format import BLOCK_TOKENS, INT8, KvFormat
from halfline.model.reference import Array, ReferenceExecutor, attend

_LARGEST = 127


def rounded_per_place(x: Array) -> Array:
    """x [places, heads, head_dim], one scale per place and head."""
    return _rounded(x, np.abs(x).max(axis=2, keepdims=True))


def rounded_per_channel(x: Array) -> Array:
    """x [places, heads, head_dim] of whole blocks, one scale per block, head and dimension."""
    blocks = x.reshape(-1, BLOCK_TOKENS, *x.shape[1:])
    return _rounded(blocks, np.abs(blocks).max(axis=1, keepdims=True)).reshape(x.shape)


def _rounded(x: Array, largest: Array) -> Array:
    scale = np.where(largest > 0, largest, 1.0) / _LARGEST
    rounded: Array = np.rint(x / scale) * scale
    return rounded


class Int8KvReference(ReferenceExecutor):
    """The float64 reference with KV as the int8 format keeps it."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        num_blocks: int,
        rounded_keys: Callable[[Array], Array] = rounded_per_channel,
    ) -> None:
        super().__init__(checkpoint, num_blocks)
        self._rounded_keys = rounded_keys

    @property
    def kv_format(self) -> KvFormat:
        return INT8

    def _attend(
        self, q: Array, keys: Array, values: Array, visible: NDArray[np.bool_], places: NDArray[np.int64]
    ) -> Array:
        keys, values = _as_half(keys), _as_half(values)
        attended = np.empty_like(q)
        own_blocks = places // BLOCK_TOKENS
        for block in np.unique(own_blocks):
            rows = own_blocks == block
            start = int(block) * BLOCK_TOKENS
            attended[rows] = attend(
                q[rows],
                np.concatenate((self._rounded_keys(keys[:start]), keys[start:])),
                np.concatenate((rounded_per_place(values[:start]), values[start:])),
                visible[rows],
            )
        return attended


def _as_half(x: Array) -> Array:
    return x.astype(np.float16).astype(np.float64)
