"""The same models by way of GGUF, written as llama.cpp's converter writes them, against `transformers`."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray
from transformers import PreTrainedModel

from halfline.model.checkpoint import TensorFormat
from halfline.model.dequantize import dequantize
from halfline.model.load import open_checkpoint
from halfline.model.rope import inverse_frequencies
from halfline.model.spec import FrequencyFactors, Llama3Scaling, RopeSpec

PARTS = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def interleaved(rows: NDArray[np.float32], num_heads: int) -> NDArray[np.float32]:
    """What the converter does to q and k of Llama and its kin: halves of each head become neighbours."""
    half = len(rows) // num_heads // 2
    return rows.reshape(num_heads, 2, half, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def write_gguf(
    model: PreTrainedModel, path: Path, quantized: gguf.GGMLQuantizationType | None = None
) -> Path:
    config = model.config
    architecture = "llama" if config.model_type == "mistral" else config.model_type
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if config.model_type == "starcoder2":
        writer.add_layer_norm_eps(config.norm_epsilon)
    else:
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    if config.model_type == "granite":
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    scaling = config.rope_parameters
    if scaling["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(scaling["factor"])
    elif scaling["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_factors(model))

    for name, parameter in model.named_parameters():
        rows = parameter.detach().float().numpy()
        stem, suffix = name.rsplit(".", 1)
        if architecture in ("llama", "granite") and stem.endswith(("q_proj", "k_proj")):
            is_query = stem.endswith("q_proj")
            rows = interleaved(rows, config.num_attention_heads if is_query else config.num_key_value_heads)
        if stem.startswith("model.layers."):
            _, _, layer, part = stem.split(".", 3)
            stored = f"blk.{layer}.{PARTS[part]}.{suffix}"
        else:
            stored = f"{PARTS[stem]}.{suffix}"
        if quantized is not None and rows.ndim == 2:
            writer.add_tensor(stored, gguf.quantize(rows, quantized), raw_dtype=quantized)
        else:
            writer.add_tensor(stored, np.ascontiguousarray(rows))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def rope_factors(model: PreTrainedModel) -> NDArray[np.float32]:
    """Plain frequencies over those the model really uses."""
    used = model.model.rotary_emb.inv_freq.double().numpy()
    plain = model.config.rope_parameters["rope_theta"] ** -(np.arange(len(used)) / len(used))
    return (plain / used).astype(np.float32)


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama with biases": ("llama", {"attention_bias": True}),
    "llama with linear scaling": (
        "llama",
        {"rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 1e4}},
    ),
    "llama 3.1": ("llama", {"rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0, **LLAMA3}}),
    "mistral with a window": ("mistral", {"sliding_window": 7}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("qwen3", {"head_dim": 12}),
    "starcoder2": ("starcoder2", {"sliding_window": 7}),
    "granite": (
        "granite",
        {
            "embedding_multiplier": 12.0,
            "residual_multiplier": 0.22,
            "attention_multiplier": 0.3,
            "logits_scaling": 8.0,
        },
    ),
}


@pytest.mark.parametrize(("model_type", "differences"), CASES.values(), ids=CASES.keys())
def test_the_reference_agrees_with_transformers_through_gguf(
    model_type: str,
    differences: dict[str, Any],
    oracle: Any,
    tmp_path: Path,
    oracle_logits: Any,
    reference_logits: Any,
) -> None:
    model = oracle(model_type, **differences)
    checkpoint = open_checkpoint(write_gguf(model, tmp_path / "tiny.gguf"))
    expected = oracle_logits(model)
    assert np.abs(reference_logits(checkpoint) - expected).max() / np.abs(expected).max() < 1e-5


def test_quantised_rows_are_put_back_in_order_without_being_read(oracle: Any, tmp_path: Path) -> None:
    model = oracle("llama", intermediate_size=64)
    path = write_gguf(model, tmp_path / "tiny.gguf", gguf.GGMLQuantizationType.Q8_0)
    tensor = open_checkpoint(path).tensor("layers.0.k.weight")
    assert tensor.format is TensorFormat.Q8_0
    rows = model.model.layers[0].self_attn.k_proj.weight.detach().numpy()
    expected = gguf.dequantize(
        gguf.quantize(rows, gguf.GGMLQuantizationType.Q8_0), gguf.GGMLQuantizationType.Q8_0
    )
    np.testing.assert_array_equal(dequantize(tensor), expected)


def test_factors_in_the_file_are_the_scaling_the_config_describes(oracle: Any, tmp_path: Path) -> None:
    model = oracle("llama", rope_parameters={"rope_type": "llama3", "rope_theta": 500.0, **LLAMA3})
    rope = open_checkpoint(write_gguf(model, tmp_path / "tiny.gguf")).spec.rope
    assert isinstance(rope.scaling, FrequencyFactors)
    described = RopeSpec(base=500.0, rotary_dim=8, scaling=Llama3Scaling(8.0, 1.0, 4.0, 64))
    np.testing.assert_allclose(inverse_frequencies(rope), inverse_frequencies(described), rtol=1e-6)
