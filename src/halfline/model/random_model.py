"""Tiny models with random weights, held in memory: what tests and benchmarks run instead of a download.

Token id b < 256 is the byte b, 256 begins a text, 257 ends it, the rest is never used. The weights are random but
sized so that a greedy continuation wanders instead of repeating one token.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfline.errors import DamagedModel
from halfline.model.checkpoint import Tensor, TensorFormat
from halfline.model.quantize import quantize
from halfline.model.spec import Family, ModelSpec, RopeScaling, RopeSpec
from halfline.model.tensor_shapes import optional_shapes, required_shapes
from halfline.text.vocab import VocabSpec

BOS_ID, EOS_ID = 256, 257


@dataclass(frozen=True, slots=True)
class MemoryCheckpoint:
    """A checkpoint whose tensors are simply there."""

    spec: ModelSpec
    vocab: VocabSpec
    tensors: Mapping[str, Tensor]

    def names(self) -> Iterable[str]:
        return self.tensors.keys()

    def tensor(self, name: str) -> Tensor:
        if name not in self.tensors:
            raise DamagedModel(self.spec.name, f"the tensor {name!r} is missing")
        return self.tensors[name]

    def close(self) -> None:
        """Nothing is open."""


def random_checkpoint(
    *,
    family: Family = "llama",
    num_layers: int = 2,
    hidden_size: int = 64,
    num_heads: int = 4,
    num_kv_heads: int = 2,
    head_dim: int | None = None,
    ffn_size: int = 128,
    vocab_size: int = 258,
    max_context: int = 512,
    tied: bool = True,
    sliding_window: int | None = None,
    rope_scaling: RopeScaling | None = None,
    format: TensorFormat = TensorFormat.F32,
    seed: int = 0,
) -> MemoryCheckpoint:
    """A model of this family and shape; `head_dim` None is hidden_size / num_heads.

    Matrices are stored as `format`, norms and biases as F32. The biases a family can have, it has.
    Raises ValueError when a row is no whole number of the format's blocks.
    """
    dim = head_dim or hidden_size // num_heads
    granite = family == "granite"
    spec = ModelSpec(
        family=family,
        name=f"random-{family}",
        num_layers=num_layers,
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=dim,
        ffn_size=ffn_size,
        vocab_size=vocab_size,
        max_context=max_context,
        norm="layer" if family == "starcoder2" else "rms",
        norm_eps=1e-5,
        gated=family != "starcoder2",
        attention_scale=0.2 if granite else dim**-0.5,
        rope=RopeSpec(base=10_000.0, rotary_dim=dim, scaling=rope_scaling),
        qk_norm=family == "qwen3",
        sliding_window=sliding_window,
        embedding_scale=3.0 if granite else 1.0,
        residual_scale=0.7 if granite else 1.0,
        logit_scale=0.5 if granite else 1.0,
    )
    shapes = required_shapes(spec) | _biases(spec)
    if not tied:
        shapes["head.weight"] = (vocab_size, hidden_size)
    generator = np.random.default_rng(seed)
    tensors = {
        name: quantize(name, _values(name, shape, generator), format if len(shape) == 2 else TensorFormat.F32)
        for name, shape in shapes.items()
    }
    return MemoryCheckpoint(spec, byte_vocab(vocab_size), tensors)


def byte_vocab(size: int = 258) -> VocabSpec:
    """Every byte is a token of its own; at least 258 tokens."""
    tokens = (*_byte_alphabet(), "<bos>", "<eos>", *(f"<unused_{i}>" for i in range(258, size)))
    return VocabSpec(
        kind="bpe",
        tokens=tokens,
        token_types=(1,) * 256 + (3, 3) + (5,) * (size - 258),
        pre_tokenizer="gpt-2",
        bos_id=BOS_ID,
        eos_ids=(EOS_ID,),
    )


def _byte_alphabet() -> tuple[str, ...]:
    """GPT-2's spelling of bytes: printable Latin-1 stands for itself, the others count up from U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in printable else next(substitutes)) for byte in range(256))


def _biases(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    parts = {"qwen2": ("q", "k", "v"), "starcoder2": ("q", "k", "v", "o", "up", "down")}.get(spec.family, ())
    wanted = {f"layers.{layer}.{part}.bias" for layer in range(spec.num_layers) for part in parts}
    return {name: shape for name, shape in optional_shapes(spec).items() if name in wanted}


def _values(name: str, shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.float32]:
    noise = generator.standard_normal(shape)
    if name.endswith("norm.weight"):
        values = 1 + noise / 8
    elif name == "embed.weight" or len(shape) == 1:
        # Embeddings are small beside what the layers add: a tied head would answer every token with itself.
        values = noise / 8
    else:
        values = noise * 2 / np.sqrt(shape[1])
    return values.astype(np.float32)
