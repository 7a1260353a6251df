"""The shape of a model, as plain numbers: what an executor needs to know besides the weights.

Whatever file a model comes from, its reader brings it into one canonical form, described here:
rotary pairs are (i, i + rotary_dim/2) ("half split"; GGUF's llama-family files interleave them, their
reader permutes the rows of q and k back), matrices are [out, in], norms are plain multipliers.
"""

from dataclasses import dataclass
from typing import Literal

Family = Literal["llama", "mistral", "qwen2", "qwen3", "starcoder2", "granite"]


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """Positions divided by `factor`."""

    factor: float


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Low frequencies divided by `factor`, high ones kept, a ramp between (Llama 3.1)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_context: int


@dataclass(frozen=True, slots=True)
class FrequencyFactors:
    """Frequency number i divided by `factors[i]`: how GGUF stores Llama 3.1's scaling, already worked out."""

    factors: tuple[float, ...]


RopeScaling = LinearScaling | Llama3Scaling | FrequencyFactors


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeSpec:
    """`model/rope.py` turns this into frequencies, the same for every executor."""

    base: float
    rotary_dim: int
    scaling: RopeScaling | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """One decoder-only transformer.

    Forward pass (`x` starts as embed[token] * embedding_scale):
        x += residual_scale * o(attention(norm(x)));  x += residual_scale * ffn(norm(x))
        logits = head(norm(x)) * logit_scale
    Attention scores are q·k * attention_scale. The ffn is down(silu(gate(x)) * up(x)) when `gated`, else
    down(gelu_tanh(up(x))). `norm` "rms" multiplies by weight, "layer" also subtracts the mean and adds bias.
    Biases are optional tensors: an executor looks whether `layers.N.q.bias` exists. `qk_norm` is an RMS norm of
    every head of q and k, before the rotation. Layers marked in `sliding_layers` (None marks all) see no further
    back than `sliding_window`, whatever the batch's mask allows.
    """

    family: Family
    name: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    max_context: int
    norm: Literal["rms", "layer"]
    norm_eps: float
    gated: bool
    attention_scale: float
    rope: RopeSpec
    qk_norm: bool = False
    sliding_window: int | None = None
    sliding_layers: tuple[bool, ...] | None = None
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0

    @property
    def q_size(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_dim

    def layer_window(self, layer: int) -> int | None:
        """How many places, its own included, a row of this layer may look back; None when all."""
        if self.sliding_layers is None or self.sliding_layers[layer]:
            return self.sliding_window
        return None

    @property
    def group_size(self) -> int:
        """Query heads that share one KV head."""
        return self.num_heads // self.num_kv_heads
