"""Granite 3: Llama's shape with four constants that scale embeddings, residuals, attention and logits."""

from dataclasses import replace

from halfline.model.facts import Facts
from halfline.model.families.decoder import require_activation, spec_from_config, spec_from_metadata
from halfline.model.families.family import FamilyTable, GgufForm
from halfline.model.spec import ModelSpec


def _from_config(config: Facts) -> ModelSpec:
    require_activation(config, "silu")
    return replace(
        spec_from_config(config, "granite"),
        embedding_scale=config.number("embedding_multiplier", 1.0),
        residual_scale=config.number("residual_multiplier", 1.0),
        attention_scale=config.number("attention_multiplier", 1.0),
        logit_scale=1 / config.number("logits_scaling", 1.0),
    )


def _from_metadata(metadata: Facts, vocab_size: int) -> ModelSpec:
    """GGUF's logit_scale divides as well, in spite of its name."""
    spec = spec_from_metadata(metadata, vocab_size, "granite")
    return replace(
        spec,
        embedding_scale=metadata.number("embedding_scale", 1.0),
        residual_scale=metadata.number("residual_scale", 1.0),
        attention_scale=metadata.number("attention.scale", spec.attention_scale),
        logit_scale=1 / metadata.number("logit_scale", 1.0),
    )


GRANITE = FamilyTable(
    model_type="granite",
    from_config=_from_config,
    gguf=GgufForm(architecture="granite", from_metadata=_from_metadata, interleaved=True),
)
