"""Qwen 3: every head of q and k is normed, no biases, and heads may be wider than hidden_size / heads."""

from dataclasses import replace

from halfline.model.facts import Facts
from halfline.model.families.decoder import require_activation, spec_from_config, spec_from_metadata
from halfline.model.families.family import FamilyTable, GgufForm
from halfline.model.families.sliding_window import qwen_window
from halfline.model.spec import ModelSpec

_DEFAULT_HEAD_DIM = 128


def _from_config(config: Facts) -> ModelSpec:
    require_activation(config, "silu")
    spec = spec_from_config(config, "qwen3", head_dim=_DEFAULT_HEAD_DIM)
    window, layers = qwen_window(config, spec.num_layers)
    return replace(spec, qk_norm=True, sliding_window=window, sliding_layers=layers)


def _from_metadata(metadata: Facts, vocab_size: int) -> ModelSpec:
    return replace(spec_from_metadata(metadata, vocab_size, "qwen3"), qk_norm=True)


QWEN3 = FamilyTable(
    model_type="qwen3",
    from_config=_from_config,
    gguf=GgufForm(architecture="qwen3", from_metadata=_from_metadata),
)
