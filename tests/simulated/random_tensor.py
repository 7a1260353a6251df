"""A matrix of random bits in any format of a model's file."""

import numpy as np

from halfline.model.checkpoint import Tensor, TensorFormat

FLOATS = (TensorFormat.F32, TensorFormat.F16, TensorFormat.BF16)
SCALES_AT = {
    TensorFormat.Q8_0: (0,),
    TensorFormat.Q4_0: (0,),
    TensorFormat.Q4_1: (0, 2),
    TensorFormat.Q5_0: (0,),
    TensorFormat.Q5_1: (0, 2),
    TensorFormat.Q4_K: (0, 2),
    TensorFormat.Q5_K: (0, 2),
    TensorFormat.Q6_K: (208,),
}
"""Offsets of the fp16 scales within a block, in bytes."""


def random_tensor(format: TensorFormat, rows: int, cols: int, generator: np.random.Generator) -> Tensor:
    """Random bits as quants, random small numbers as scales: reaches every quant, -128 in Q8_0 included."""
    num_bytes = cols // format.block_values * format.block_bytes
    if format in FLOATS:
        values = generator.standard_normal((rows, cols)).astype(np.float32)
        if format is TensorFormat.F16:
            data = values.astype(np.float16).view(np.uint8)
        elif format is TensorFormat.BF16:
            data = (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        else:
            data = values.view(np.uint8)
        return Tensor("test.weight", format, (rows, cols), data)
    blocks = generator.integers(0, 256, (rows, num_bytes // format.block_bytes, format.block_bytes), np.uint8)
    for offset in SCALES_AT[format]:
        scales = generator.uniform(-0.1, 0.1, blocks.shape[:2]).astype(np.float16)
        blocks[:, :, offset : offset + 2] = scales[..., None].view(np.uint8)
    return Tensor("test.weight", format, (rows, cols), blocks.reshape(rows, num_bytes))
