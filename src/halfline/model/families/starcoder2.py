"""StarCoder 2: layer norms, biases everywhere, a feed-forward part without a gate, a sliding window."""

from dataclasses import replace

from halfline.model.facts import Facts
from halfline.model.families.decoder import require_activation, spec_from_config, spec_from_metadata
from halfline.model.families.family import FamilyTable, GgufForm
from halfline.model.families.sliding_window import config_window, metadata_window
from halfline.model.spec import ModelSpec


def _from_config(config: Facts) -> ModelSpec:
    require_activation(config, "gelu_pytorch_tanh")
    spec = spec_from_config(config, "starcoder2")
    return replace(
        spec,
        norm="layer",
        norm_eps=config.number("norm_epsilon", 1e-5),
        gated=False,
        sliding_window=config_window(config),
    )


def _from_metadata(metadata: Facts, vocab_size: int) -> ModelSpec:
    spec = spec_from_metadata(metadata, vocab_size, "starcoder2", eps_key="attention.layer_norm_epsilon")
    return replace(spec, norm="layer", gated=False, sliding_window=metadata_window(metadata))


STARCODER2 = FamilyTable(
    model_type="starcoder2",
    from_config=_from_config,
    gguf=GgufForm(architecture="starcoder2", from_metadata=_from_metadata),
    tied_by_default=True,
)
