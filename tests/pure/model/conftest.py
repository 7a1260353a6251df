"""GGUF files written byte by byte, so that tests can also write impossible ones."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from halfline.model.checkpoint import Tensor
from halfline.model.random_model import MemoryCheckpoint, random_checkpoint

U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def typed(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", BOOL, value)
        case int():
            return struct.pack("<II", U32, value)
        case float():
            return struct.pack("<If", F32, value)
        case str():
            return struct.pack("<I", STRING) + text(value)
        case tuple() if value and isinstance(value[0], str):
            return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(text, value))
        case tuple() if value and isinstance(value[0], float):
            return struct.pack("<IIQ", ARRAY, F32, len(value)) + struct.pack(f"<{len(value)}f", *value)
        case tuple():
            return struct.pack("<IIQ", ARRAY, I32, len(value)) + struct.pack(f"<{len(value)}i", *value)
        case bytes():  # already typed, by a test that wants something odd
            return value
    raise TypeError(value)


def gguf_bytes(
    values: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    version: int = 3,
    num_values: int | None = None,
    num_tensors: int | None = None,
    alignment: int = 32,
) -> bytes:
    header = b"GGUF" + struct.pack(
        "<IQQ",
        version,
        len(tensors) if num_tensors is None else num_tensors,
        len(values) if num_values is None else num_values,
    )
    for key, value in values.items():
        header += text(key) + typed(value)
    data = b""
    for name, tensor in tensors.items():
        sizes = tensor.shape[::-1]
        header += text(name) + struct.pack(
            f"<I{len(sizes)}QIQ", len(sizes), *sizes, tensor.format.value, len(data)
        )
        data += tensor.data.tobytes()
        data += bytes(-len(data) % alignment)
    return header + bytes(-len(header) % alignment) + data


GGUF_PARTS = {
    "embed": "token_embd",
    "head": "output",
    "final_norm": "output_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}


def gguf_name(canonical: str) -> str:
    *layer, part, suffix = canonical.split(".")
    stored = f"{GGUF_PARTS.get(part, part)}.{suffix}"
    return f"blk.{layer[1]}.{stored}" if layer else stored


def gguf_values(checkpoint: MemoryCheckpoint) -> dict[str, Any]:
    """The metadata of a model whose GGUF form needs no reordering."""
    spec, vocab, family = checkpoint.spec, checkpoint.vocab, checkpoint.spec.family
    return {
        "general.architecture": family,
        "general.name": "tiny",
        f"{family}.block_count": spec.num_layers,
        f"{family}.context_length": spec.max_context,
        f"{family}.embedding_length": spec.hidden_size,
        f"{family}.feed_forward_length": spec.ffn_size,
        f"{family}.attention.head_count": spec.num_heads,
        f"{family}.attention.head_count_kv": spec.num_kv_heads,
        f"{family}.attention.key_length": spec.head_dim,
        f"{family}.attention.value_length": spec.head_dim,
        f"{family}.attention.layer_norm_rms_epsilon": spec.norm_eps,
        f"{family}.rope.freq_base": spec.rope.base,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": vocab.tokens,
        "tokenizer.ggml.token_type": vocab.token_types,
        "tokenizer.ggml.bos_token_id": vocab.bos_id,
        "tokenizer.ggml.eos_token_id": vocab.eos_ids[0],
    }


class TinyGguf:
    """A small model as GGUF: change `values` and `tensors` before writing, to break it."""

    def __init__(self, directory: Path) -> None:
        self.checkpoint = random_checkpoint(
            family="qwen2", num_layers=2, hidden_size=32, ffn_size=32, tied=False
        )
        self.values = gguf_values(self.checkpoint)
        self.tensors = {gguf_name(name): tensor for name, tensor in self.checkpoint.tensors.items()}
        self._path = directory / "tiny.gguf"

    def encoded(self, **differences: Any) -> bytes:
        return gguf_bytes(self.values, self.tensors, **differences)

    def write(self, **differences: Any) -> Path:
        return self.write_bytes(self.encoded(**differences))

    def write_bytes(self, data: bytes) -> Path:
        self._path.write_bytes(data)
        return self._path


@pytest.fixture
def tiny_gguf(tmp_path: Path) -> TinyGguf:
    return TinyGguf(tmp_path)
