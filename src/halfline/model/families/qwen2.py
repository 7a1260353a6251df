"""Qwen 2 and 2.5, Coder included: q, k and v have biases, and the upper layers may have a window."""

from dataclasses import replace

from halfline.model.facts import Facts
from halfline.model.families.decoder import require_activation, spec_from_config, spec_from_metadata
from halfline.model.families.family import FamilyTable, GgufForm
from halfline.model.families.sliding_window import qwen_window
from halfline.model.spec import ModelSpec


def _from_config(config: Facts) -> ModelSpec:
    require_activation(config, "silu")
    spec = spec_from_config(config, "qwen2")
    window, layers = qwen_window(config, spec.num_layers)
    return replace(spec, sliding_window=window, sliding_layers=layers)


def _from_metadata(metadata: Facts, vocab_size: int) -> ModelSpec:
    return spec_from_metadata(metadata, vocab_size, "qwen2")


QWEN2 = FamilyTable(
    model_type="qwen2",
    from_config=_from_config,
    gguf=GgufForm(architecture="qwen2", from_metadata=_from_metadata),
)
