"""Every family, from a Hugging Face directory through the reference, against `transformers` on random weights."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from halfline.model.checkpoint import TensorFormat
from halfline.model.dequantize import dequantize
from halfline.model.load import open_checkpoint
from halfline.model.spec import LinearScaling, Llama3Scaling

LINEAR = {"rope_type": "linear", "factor": 3.0, "rope_theta": 10000.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
    "rope_theta": 500.0,
}
WINDOW = 7  # far fewer than the 40 tokens run

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama tied": ("llama", {"tie_word_embeddings": True}),
    "llama with one KV head": ("llama", {"num_key_value_heads": 1}),
    "llama without groups": ("llama", {"num_key_value_heads": 4}),
    "llama with biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama with narrow heads": ("llama", {"head_dim": 4}),
    "llama with linear scaling": ("llama", {"rope_parameters": LINEAR}),
    "llama 3.1": ("llama", {"rope_parameters": LLAMA3}),
    "mistral": ("mistral", {"sliding_window": None}),
    "mistral with a window": ("mistral", {"sliding_window": WINDOW}),
    "mistral with wide heads": ("mistral", {"head_dim": 16, "sliding_window": None}),
    "qwen2": ("qwen2", {}),
    "qwen2 tied": (
        "qwen2",
        {"tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    ),
    "qwen2 with a window above layer 1": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    ),
    "qwen3": ("qwen3", {"head_dim": 12, "tie_word_embeddings": True}),
    "qwen3 with biases and a window": (
        "qwen3",
        {
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": WINDOW,
            "max_window_layers": 2,
        },
    ),
    "starcoder2": ("starcoder2", {}),
    "starcoder2 with a window": ("starcoder2", {"sliding_window": WINDOW, "tie_word_embeddings": False}),
    "starcoder2 without biases": ("starcoder2", {"use_bias": False}),
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


def relative_error(found: Any, expected: Any) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize(("model_type", "differences"), CASES.values(), ids=CASES.keys())
def test_the_reference_agrees_with_transformers(
    model_type: str,
    differences: dict[str, Any],
    oracle: Any,
    saved: Any,
    oracle_logits: Any,
    reference_logits: Any,
) -> None:
    model = oracle(model_type, **differences)
    checkpoint = open_checkpoint(saved(model))
    assert relative_error(reference_logits(checkpoint), oracle_logits(model)) < 1e-5


@pytest.mark.parametrize(("name", "differs"), [("linear", LINEAR), ("llama3", LLAMA3)])
def test_a_scaling_spelled_the_old_way_is_the_same_scaling(
    name: str, differs: dict[str, Any], oracle: Any, saved: Callable[..., Path]
) -> None:
    directory = saved(oracle("llama", rope_parameters=differs))
    new = open_checkpoint(directory).spec
    config = json.loads((directory / "config.json").read_text())
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = {"type": scaling.pop("rope_type"), **scaling}
    (directory / "config.json").write_text(json.dumps(config))
    old = open_checkpoint(directory).spec
    assert old.rope == new.rope
    assert isinstance(old.rope.scaling, LinearScaling if name == "linear" else Llama3Scaling)


def test_a_sharded_directory_is_the_same_model_as_a_single_file(
    oracle: Any, saved: Callable[..., Path]
) -> None:
    model = oracle("llama")
    whole = open_checkpoint(saved(model))
    tensors = {name: whole.tensor(name) for name in whole.names()}
    directory = saved(model, max_shard_size="20KB")
    (directory / "model.safetensors").unlink()
    assert len(list(directory.glob("*.safetensors"))) > 3
    sharded = open_checkpoint(directory)
    assert set(sharded.names()) == set(tensors)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(sharded.tensor(name).data, tensor.data)


@pytest.mark.parametrize(("dtype", "stored"), [(torch.float16, "F16"), (torch.bfloat16, "BF16")])
def test_half_precision_weights_are_read_as_stored(
    dtype: torch.dtype, stored: str, oracle: Any, saved: Callable[..., Path]
) -> None:
    model = oracle("llama").to(dtype)
    tensor = open_checkpoint(saved(model)).tensor("layers.1.q.weight")
    assert tensor.format is TensorFormat[stored]
    expected = model.model.layers[1].self_attn.q_proj.weight.detach().float().numpy()
    np.testing.assert_array_equal(dequantize(tensor), expected)
