"""Weights as they lie in a file, under canonical names.

Names: `embed`, `head` (absent when tied), `final_norm`, `layers.N.` and one of `attn_norm`, `q`, `k`, `v`, `o`,
`q_norm`, `k_norm`, `ffn_norm`, `gate`, `up`, `down`; each followed by `.weight`, and `.bias` where the model has
one. Matrices are [out, in] and keep the file's format; nothing is converted before somebody asks.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from halfline.model.spec import ModelSpec
from halfline.text.vocab import VocabSpec


class TensorFormat(Enum):
    """How numbers are stored; the value is GGUF's type number."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    BF16 = 30

    @property
    def block_values(self) -> int:
        """Values per block; blocks run along a row and never cross it."""
        return _BLOCKS[self][0]

    @property
    def block_bytes(self) -> int:
        return _BLOCKS[self][1]


_BLOCKS = {
    TensorFormat.F32: (1, 4),
    TensorFormat.F16: (1, 2),
    TensorFormat.BF16: (1, 2),
    TensorFormat.Q4_0: (32, 18),
    TensorFormat.Q4_1: (32, 20),
    TensorFormat.Q5_0: (32, 22),
    TensorFormat.Q5_1: (32, 24),
    TensorFormat.Q8_0: (32, 34),
    TensorFormat.Q4_K: (256, 144),
    TensorFormat.Q5_K: (256, 176),
    TensorFormat.Q6_K: (256, 210),
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One stored tensor: `data` is uint8 [rows, bytes per row], usually a view into a mapped file.

    A vector has one row. `shape` is (out, in) for a matrix and (n,) for a vector.
    """

    name: str
    format: TensorFormat
    shape: tuple[int, ...]
    data: NDArray[np.uint8]


class Checkpoint(Protocol):
    """A model's files, opened: its shape, its vocabulary and its tensors by canonical name."""

    @property
    def spec(self) -> ModelSpec: ...

    @property
    def vocab(self) -> VocabSpec: ...

    def names(self) -> Iterable[str]: ...

    def tensor(self, name: str) -> Tensor:
        """Raises DamagedModel when it is missing or its shape contradicts the spec."""

    def close(self) -> None: ...
