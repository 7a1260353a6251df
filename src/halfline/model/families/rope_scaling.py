"""How files say that rotary positions are stretched: two spellings of Hugging Face's, and GGUF's."""

from halfline.errors import UnsupportedModel
from halfline.model.facts import Facts
from halfline.model.spec import LinearScaling, Llama3Scaling, RopeScaling, RopeSpec

_DEFAULT_BASE = 10_000.0


def rope_from_config(config: Facts, head_dim: int) -> RopeSpec:
    """From `rope_parameters` (newer files) or `rope_theta` and `rope_scaling` (older ones)."""
    parameters = config.values.get("rope_parameters") or config.values.get("rope_scaling") or {}
    if not isinstance(parameters, dict):
        raise config.damaged(f"the rope parameters are {parameters!r}, not an object")
    rope = Facts(config.source, {**config.values, **parameters})
    if rope.number("partial_rotary_factor", 1.0) != 1.0:
        raise UnsupportedModel(config.source, "a rotation of only a part of each head")
    return RopeSpec(
        base=rope.number("rope_theta", _DEFAULT_BASE), rotary_dim=head_dim, scaling=_scaling_from_config(rope)
    )


def rope_from_metadata(metadata: Facts, head_dim: int) -> RopeSpec:
    """Llama 3.1's factors are not here: GGUF keeps them in a tensor, see `gguf_checkpoint.py`."""
    kind = metadata.text("rope.scaling.type", "none")
    scaling = None
    if kind == "linear":
        scaling = LinearScaling(metadata.number("rope.scaling.factor"))
    elif kind != "none":
        raise _unsupported(metadata, kind)
    elif metadata.has("rope.scale_linear"):  # before there were types
        scaling = LinearScaling(metadata.number("rope.scale_linear"))
    return RopeSpec(
        base=metadata.number("rope.freq_base", _DEFAULT_BASE),
        rotary_dim=metadata.integer("rope.dimension_count", head_dim),
        scaling=None if scaling == LinearScaling(1.0) else scaling,
    )


def _scaling_from_config(rope: Facts) -> RopeScaling | None:
    kind = rope.text("rope_type", rope.text("type", "default"))
    if kind == "default":
        return None
    if kind == "linear":
        return LinearScaling(rope.number("factor"))
    if kind == "llama3":
        scaling = Llama3Scaling(
            factor=rope.number("factor"),
            low_freq_factor=rope.number("low_freq_factor"),
            high_freq_factor=rope.number("high_freq_factor"),
            original_max_context=rope.integer("original_max_position_embeddings"),
        )
        if scaling.low_freq_factor >= scaling.high_freq_factor:
            raise rope.damaged(
                f"low_freq_factor {scaling.low_freq_factor} is not below high_freq_factor"
                f" {scaling.high_freq_factor}"
            )
        return scaling
    raise _unsupported(rope, kind)


def _unsupported(facts: Facts, kind: str) -> UnsupportedModel:
    return UnsupportedModel(
        facts.source, f"the rope scaling {kind!r}; supported are none, 'linear' and 'llama3'"
    )
