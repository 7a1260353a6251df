"""Llama 1 to 3, Code Llama, DeepSeek Coder 1, SmolLM and the many others that took over its shape."""

from dataclasses import replace

from halfline.model.facts import Facts
from halfline.model.families.decoder import require_activation, spec_from_config, spec_from_metadata
from halfline.model.families.family import FamilyTable, GgufForm
from halfline.model.families.sliding_window import metadata_window
from halfline.model.spec import ModelSpec


def _from_config(config: Facts) -> ModelSpec:
    require_activation(config, "silu")
    return spec_from_config(config, "llama")


def _from_metadata(metadata: Facts, vocab_size: int) -> ModelSpec:
    """Mistral's GGUF files are of this architecture too; their window, where they tell it, is kept."""
    spec = spec_from_metadata(metadata, vocab_size, "llama")
    return replace(spec, sliding_window=metadata_window(metadata))


LLAMA = FamilyTable(
    model_type="llama",
    from_config=_from_config,
    gguf=GgufForm(architecture="llama", from_metadata=_from_metadata, interleaved=True),
)
