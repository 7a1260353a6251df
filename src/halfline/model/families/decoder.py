"""What the families share: a ModelSpec from config.json or from GGUF metadata, before a family adds its own."""

from halfline.errors import UnsupportedModel
from halfline.model.facts import Facts
from halfline.model.families.rope_scaling import rope_from_config, rope_from_metadata
from halfline.model.spec import Family, ModelSpec

# Nothing real has more; a damaged count must not become as many layers of work.
_MAX_LAYERS = 1024


def spec_from_config(config: Facts, family: Family, *, head_dim: int | None = None) -> ModelSpec:
    """`head_dim` is the family's default where the config does not tell; None is hidden_size / heads."""
    hidden_size = config.integer("hidden_size")
    num_heads = config.integer("num_attention_heads")
    head_dim = config.integer("head_dim", head_dim or max(1, hidden_size // num_heads))
    spec = ModelSpec(
        family=family,
        name=family,
        num_layers=config.integer("num_hidden_layers"),
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=config.integer("num_key_value_heads", num_heads),
        head_dim=head_dim,
        ffn_size=config.integer("intermediate_size"),
        vocab_size=config.integer("vocab_size"),
        max_context=config.integer("max_position_embeddings"),
        norm="rms",
        norm_eps=config.number("rms_norm_eps", 1e-6),
        gated=True,
        attention_scale=head_dim**-0.5,
        rope=rope_from_config(config, head_dim),
    )
    return _possible(config, spec)


def spec_from_metadata(
    metadata: Facts, vocab_size: int, family: Family, *, eps_key: str = "attention.layer_norm_rms_epsilon"
) -> ModelSpec:
    if metadata.integer("expert_count", 0, minimum=0):
        raise UnsupportedModel(
            metadata.source, "a mixture of experts; of this architecture only dense models are supported"
        )
    hidden_size = metadata.integer("embedding_length")
    num_heads = metadata.integer("attention.head_count")
    head_dim = metadata.integer("attention.key_length", max(1, hidden_size // num_heads))
    value_length = metadata.integer("attention.value_length", head_dim)
    if value_length != head_dim:
        raise UnsupportedModel(
            metadata.source, f"keys of {head_dim} and values of {value_length} numbers; they have to be alike"
        )
    spec = ModelSpec(
        family=family,
        name=family,
        num_layers=metadata.integer("block_count"),
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=metadata.integer("attention.head_count_kv", num_heads),
        head_dim=head_dim,
        ffn_size=metadata.integer("feed_forward_length"),
        vocab_size=vocab_size,
        max_context=metadata.integer("context_length"),
        norm="rms",
        norm_eps=metadata.number(eps_key),
        gated=True,
        attention_scale=head_dim**-0.5,
        rope=rope_from_metadata(metadata, head_dim),
    )
    return _possible(metadata, spec)


def require_activation(config: Facts, expected: str) -> None:
    found = config.text("hidden_act", expected)
    if found != expected:
        raise UnsupportedModel(
            config.source, f"the activation {found!r}; this family is run with {expected!r}"
        )


def _possible(facts: Facts, spec: ModelSpec) -> ModelSpec:
    if spec.num_layers > _MAX_LAYERS:
        raise facts.damaged(f"{spec.num_layers} layers, more than any model has")
    if spec.num_heads % spec.num_kv_heads:
        raise facts.damaged(f"{spec.num_heads} query heads cannot share {spec.num_kv_heads} KV heads evenly")
    if spec.rope.rotary_dim % 2 or spec.rope.rotary_dim > spec.head_dim:
        raise facts.damaged(f"{spec.rope.rotary_dim} rotary dimensions in heads of {spec.head_dim}")
    return spec
