"""Embeddings of a stored prompt in two precisions (A6): instructions as float16, the long rest as int8 with a scale.

    exact row    float16 x width                    2 x width bytes
    other row    int8 x width, one float16 scale    width + 2 bytes

That is a saving of storage and of transport: whoever reads the rows makes float32 of them again. Of 576 values a row in
int8 has 578 bytes where float16 has 1152; all rows in int8 can thus never take less than half. Beside its KV, which is
twenty times as large, a token's embedding hardly counts, and a table of embeddings gives the same rows for four bytes a
token: it pays only where neither the table nor the KV is at hand (docs/lab_log.md).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_LARGEST = 127.0


@dataclass(frozen=True, slots=True)
class QuantizedEmbeddings:
    """Rows at `is_exact` are in `exact`, float16 [exact rows, width]; the others in `codes`, int8 [other rows, width],
    each to be multiplied by its own of `scales`, float16 [other rows].
    """

    is_exact: NDArray[np.bool_]
    exact: NDArray[np.float16]
    codes: NDArray[np.int8]
    scales: NDArray[np.float16]

    @property
    def num_bytes(self) -> int:
        """Of the values and scales, and a bit a row for which is which."""
        return self.exact.nbytes + self.codes.nbytes + self.scales.nbytes + -(-len(self.is_exact) // 8)

    def restore(self) -> NDArray[np.float32]:
        """[rows, width]. An int8 row is off by at most half its scale, and by float16's rounding of the scale."""
        rows = np.empty((len(self.is_exact), self.codes.shape[1]), np.float32)
        rows[self.is_exact] = self.exact
        rows[~self.is_exact] = self.codes * self.scales[:, None].astype(np.float32)
        return rows


def quantize_prompt_emb(
    embeddings: NDArray[np.floating], is_instruction: NDArray[np.bool_]
) -> QuantizedEmbeddings:
    """Of embeddings [tokens, width], those of instructions in float16.

    A row of zeros has scale 0, and so has one too small for a float16 scale: both come back as zeros. Raises ValueError
    for values that are not finite or above 65,504, and for masks of another length.
    """
    rows = np.asarray(embeddings, np.float32)
    if rows.ndim != 2 or is_instruction.shape != (len(rows),):
        raise ValueError(f"embeddings {rows.shape} and a mask {is_instruction.shape} do not agree")
    if not np.all(np.abs(rows) <= np.finfo(np.float16).max):  # NaN too
        raise ValueError("embeddings have a value that float16 cannot hold")
    others = rows[~is_instruction]
    scales = (np.abs(others).max(axis=1, initial=0.0) / _LARGEST).astype(np.float16)
    divisors = np.where(scales == 0.0, np.float16(1.0), scales).astype(np.float32)
    codes = np.where(scales[:, None] == 0.0, 0.0, np.round(others / divisors[:, None]))
    return QuantizedEmbeddings(
        is_exact=is_instruction.copy(),
        exact=rows[is_instruction].astype(np.float16),
        codes=np.clip(codes, -_LARGEST, _LARGEST).astype(np.int8),
        scales=scales,
    )
