"""Mistral 7B, Codestral: Llama's shape with a sliding window, which later configs set to null."""

from dataclasses import replace

from halfline.model.facts import Facts
from halfline.model.families.decoder import require_activation, spec_from_config
from halfline.model.families.family import FamilyTable
from halfline.model.families.sliding_window import config_window
from halfline.model.spec import ModelSpec

# What an old config that does not mention the window means by it.
_UNSAID_WINDOW = 4096


def _from_config(config: Facts) -> ModelSpec:
    require_activation(config, "silu")
    window = config_window(config) if "sliding_window" in config.values else _UNSAID_WINDOW
    return replace(spec_from_config(config, "mistral"), sliding_window=window)


MISTRAL = FamilyTable(model_type="mistral", from_config=_from_config, gguf=None)  # converters write "llama"
