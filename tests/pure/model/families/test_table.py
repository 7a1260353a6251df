"""What each family makes of its config: the defaults it leaves unsaid, its windows and its constants."""

from typing import Any

import pytest

from halfline.errors import DamagedModel, HalflineError, UnsupportedModel
from halfline.model.facts import Facts
from halfline.model.families.table import FAMILIES, family_of_config, family_of_gguf
from halfline.model.families.tensor_names import canonical_from_config, canonical_from_gguf
from halfline.model.spec import ModelSpec

CONFIG = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
}


def spec_of(model_type: str, **differences: Any) -> ModelSpec:
    return family_of_config("here", model_type).from_config(Facts("here", CONFIG | differences))


@pytest.mark.parametrize("family", [family.model_type for family in FAMILIES])
def test_a_short_config_means_the_familys_defaults(family: str) -> None:
    spec = spec_of(family)
    assert spec.family == family
    assert spec.num_kv_heads == spec.num_heads == 4
    assert spec.head_dim == (128 if family == "qwen3" else 8)
    assert spec.rope.base == 10_000.0
    assert spec.rope.scaling is None
    assert spec.qk_norm is (family == "qwen3")
    assert spec.gated is (family != "starcoder2")
    assert (spec.norm, spec.norm_eps) == (("layer", 1e-5) if family == "starcoder2" else ("rms", 1e-6))


def test_a_mistral_config_without_a_window_has_its_old_one_and_null_means_none() -> None:
    assert spec_of("mistral").sliding_window == 4096
    assert spec_of("mistral", sliding_window=None).sliding_window is None
    assert spec_of("mistral", sliding_window=7).layer_window(2) == 7


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_qwens_window_is_in_the_layers_it_names(family: str) -> None:
    def windows(**differences: Any) -> list[int | None]:
        spec = spec_of(family, sliding_window=7, **differences)
        return [spec.layer_window(layer) for layer in range(3)]

    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    assert windows() == [None, None, None]
    assert windows(use_sliding_window=False, layer_types=kinds) == [None, None, None]
    assert windows(use_sliding_window=True) == [None, None, None]  # from layer 28 on
    assert windows(use_sliding_window=True, max_window_layers=1) == [None, 7, 7]
    assert windows(use_sliding_window=True, max_window_layers=0) == [7, 7, 7]
    assert windows(use_sliding_window=True, layer_types=kinds) == [7, None, 7]


@pytest.mark.parametrize(
    ("layer_types", "error", "reason"),
    [
        (["full_attention"], DamagedModel, "not a list of 3"),
        ("full_attention", DamagedModel, "not a list of 3"),
        (
            ["full_attention", "linear_attention", "full_attention"],
            UnsupportedModel,
            "type 'linear_attention'",
        ),
        (["full_attention", [], "full_attention"], UnsupportedModel, "type"),
    ],
    ids=str,
)
def test_layer_types_that_cannot_be_run_are_refused(
    layer_types: Any, error: type[HalflineError], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        spec_of("qwen2", use_sliding_window=True, layer_types=layer_types)


def test_granite_divides_its_logits() -> None:
    spec = spec_of("granite", logits_scaling=8.0, attention_multiplier=0.25, embedding_multiplier=12)
    assert (spec.logit_scale, spec.attention_scale, spec.embedding_scale) == (0.125, 0.25, 12.0)


def test_unknown_families_are_named_beside_those_supported() -> None:
    for refuse in (family_of_config, family_of_gguf):
        with pytest.raises(UnsupportedModel) as caught:
            refuse("here", "gemma")
        assert str(caught.value) == (
            "here: a 'gemma' model; the families supported are llama, mistral, qwen2, qwen3, starcoder2, granite"
        )


def test_stored_names_have_one_canonical_name() -> None:
    assert canonical_from_config("model.layers.12.self_attn.q_proj.bias") == "layers.12.q.bias"
    assert canonical_from_config("model.layers.0.mlp.c_fc.weight") == "layers.0.up.weight"
    assert canonical_from_config("lm_head.weight") == "head.weight"
    assert canonical_from_config("model.layers.0.mlp.experts.0.w1.weight") is None
    assert canonical_from_config("transformer.wte.weight") is None
    assert canonical_from_gguf("blk.3.attn_k_norm.weight") == "layers.3.k_norm.weight"
    assert canonical_from_gguf("output_norm.weight") == "final_norm.weight"
    assert canonical_from_gguf("blk.0.ffn_gate_exps.weight") is None
    assert canonical_from_gguf("token_embd") is None
