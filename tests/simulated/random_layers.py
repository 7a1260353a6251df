"""A small random model all of whose layers' matrices have one format, those included that are only read."""

from dataclasses import replace

import numpy as np
from random_tensor import SCALES_AT, random_tensor

from halfline.model.checkpoint import Tensor, TensorFormat
from halfline.model.dequantize import dequantize
from halfline.model.random_model import MemoryCheckpoint, random_checkpoint


def random_layers(format: TensorFormat) -> MemoryCheckpoint:
    """Of random bits in a quantised format; rows of 256, 512 and 768 weights. The embedding is in Q8_0."""
    checkpoint = random_checkpoint(
        hidden_size=256,
        num_heads=4,
        num_kv_heads=1,
        head_dim=128,
        ffn_size=768,
        format=TensorFormat.Q8_0,
    )
    generator = np.random.default_rng(format.value)
    matrices = {
        name: _as_large_as(tensor, random_tensor(format, tensor.shape[0], tensor.shape[1], generator))
        for name, tensor in checkpoint.tensors.items()
        if name.startswith("layers.") and len(tensor.shape) == 2
    }
    return replace(checkpoint, tensors={**checkpoint.tensors, **matrices})


def _as_large_as(model: Tensor, tensor: Tensor) -> Tensor:
    """Quants as they are and scales that give the values the model's spread: with larger ones attention is a maximum,
    and the smallest difference chooses another place.
    """
    factor = dequantize(model).std() / dequantize(tensor).std()
    blocks = tensor.data.reshape(len(tensor.data), -1, tensor.format.block_bytes).copy()
    for offset in SCALES_AT[tensor.format]:
        scales = blocks[:, :, offset : offset + 2].copy().view(np.float16)
        blocks[:, :, offset : offset + 2] = (scales * factor).astype(np.float16).view(np.uint8)
    return replace(tensor, name=model.name, data=blocks.reshape(tensor.data.shape))
