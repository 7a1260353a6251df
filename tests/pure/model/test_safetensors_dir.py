"""Hugging Face directories: read like the `safetensors` package reads them, and refused when something is off."""

import json
import os
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from halfline.errors import DamagedModel, HalflineError, UnsupportedModel
from halfline.model.dequantize import dequantize
from halfline.model.random_model import random_checkpoint
from halfline.model.safetensors_dir import open_safetensors_dir
from halfline.model.safetensors_file import SafetensorsFile

NAMES = {
    "embed": "model.embed_tokens",
    "head": "lm_head",
    "final_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    **{part: f"self_attn.{part}_proj" for part in "qkvo"},
    **{part: f"mlp.{part}_proj" for part in ("gate", "up", "down")},
}
CONFIG = {
    "model_type": "llama",
    "vocab_size": 258,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 256,
    "eos_token_id": 257,
}
TOKENIZER = {"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}, "post_processor": None}


def stored_name(canonical: str) -> str:
    *layer, part, suffix = canonical.split(".")
    return f"model.layers.{layer[1]}.{NAMES[part]}.{suffix}" if layer else f"{NAMES[part]}.{suffix}"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    checkpoint = random_checkpoint(hidden_size=32, ffn_size=32, tied=False)
    tensors = {stored_name(name): dequantize(checkpoint.tensor(name)) for name in checkpoint.names()}
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    write_json(tmp_path / "config.json", CONFIG)
    write_json(tmp_path / "tokenizer.json", TOKENIZER)
    return tmp_path


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


def shard(directory: Path) -> dict[str, str]:
    """Cut the weights in two files; the index's weight map."""
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    files = {name: f"part-{number % 2}.safetensors" for number, name in enumerate(tensors)}
    for file in set(files.values()):
        save_file({name: tensors[name] for name in tensors if files[name] == file}, directory / file)
    write_json(directory / "model.safetensors.index.json", {"weight_map": files})
    return files


def use(directory: Path) -> None:
    checkpoint = open_safetensors_dir(directory)
    for name in checkpoint.names():
        dequantize(checkpoint.tensor(name))
    _ = checkpoint.vocab


def test_tensors_are_those_the_safetensors_package_reads(directory: Path) -> None:
    expected = load_file(directory / "model.safetensors")
    checkpoint = open_safetensors_dir(directory)
    assert {stored_name(name) for name in checkpoint.names()} == expected.keys()
    for name in checkpoint.names():
        np.testing.assert_array_equal(dequantize(checkpoint.tensor(name)), expected[stored_name(name)])


def test_shards_are_the_same_as_one_file(directory: Path) -> None:
    whole = open_safetensors_dir(directory)
    expected = {name: whole.tensor(name).data for name in whole.names()}
    shard(directory)
    sharded = open_safetensors_dir(directory)
    assert set(sharded.names()) == expected.keys()
    for name, data in expected.items():
        np.testing.assert_array_equal(sharded.tensor(name).data, data)


def test_opening_and_viewing_copies_no_tensor(tmp_path: Path) -> None:
    save_file({"big": np.zeros((2048, 2048), dtype=np.float32)}, tmp_path / "model.safetensors")
    tracemalloc.start()
    try:
        tensor = SafetensorsFile(tmp_path / "model.safetensors").tensor("big")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert tensor.data.nbytes == 16 * 2**20
    assert peak_bytes < 2**19


def test_a_tied_head_that_was_written_out_is_left_out(directory: Path) -> None:
    write_json(directory / "config.json", CONFIG | {"tie_word_embeddings": True})
    assert "head.weight" not in set(open_safetensors_dir(directory).names())


def test_an_untied_head_must_be_there(directory: Path) -> None:
    tensors = load_file(directory / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, directory / "model.safetensors")
    with pytest.raises(DamagedModel, match=r"'lm_head\.weight' is missing"):
        open_safetensors_dir(directory)


@pytest.mark.parametrize(
    "escape", ["../model.safetensors", "/etc/passwd", "..", ".", "", "sub/part.safetensors", "a\0b", 3, None]
)
def test_an_index_cannot_point_outside_of_its_directory(directory: Path, escape: Any) -> None:
    files = shard(directory)
    files["lm_head.weight"] = escape
    write_json(directory / "model.safetensors.index.json", {"weight_map": files})
    with pytest.raises(DamagedModel, match="is not the name of a file beside it"):
        open_safetensors_dir(directory)


def test_an_index_that_promises_too_much_is_caught(directory: Path) -> None:
    files = shard(directory)
    write_json(
        directory / "model.safetensors.index.json", {"weight_map": files | {"x.weight": "part-0.safetensors"}}
    )
    with pytest.raises(DamagedModel, match=r"promises 'x\.weight', which is not in it"):
        open_safetensors_dir(directory)
    write_json(
        directory / "model.safetensors.index.json", {"weight_map": files | {"x.weight": "part-9.safetensors"}}
    )
    with pytest.raises(DamagedModel, match=r"part-9\.safetensors: the file cannot be read: No such file"):
        open_safetensors_dir(directory)
    write_json(directory / "model.safetensors.index.json", {"weights": files})
    with pytest.raises(DamagedModel, match="no object `weight_map`"):
        open_safetensors_dir(directory)


@pytest.mark.parametrize(
    ("changes", "error", "reason"),
    [
        ({"model_type": "mixtral"}, UnsupportedModel, "a 'mixtral' model; the families supported are llama, mistral"),
        ({"model_type": None}, DamagedModel, "'model_type' is missing"),
        ({"hidden_act": "gelu"}, UnsupportedModel, "the activation 'gelu'"),
        ({"quantization_config": {"bits": 4}}, UnsupportedModel, "quantised"),
        ({"hidden_size": 32.0}, DamagedModel, "'hidden_size' is 32.0, not a whole number"),
        ({"num_hidden_layers": 3}, DamagedModel, "'layers.2.attn_norm.weight' is missing"),
        ({"intermediate_size": 64}, DamagedModel, "has the shape (32, 32) instead of (64, 32)"),
        ({"tie_word_embeddings": "no"}, DamagedModel, "neither true nor false"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, UnsupportedModel, "rope scaling 'dynamic'"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, UnsupportedModel, "rope scaling 'yarn'"),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, DamagedModel, "'factor' is 0"),
        ({"rope_scaling": {"type": "linear", "factor": 10**400}}, DamagedModel, "'factor' is 1000"),
        ({"rope_theta": float("inf")}, DamagedModel, "'rope_theta' is inf, not a number above zero"),
        ({"rope_scaling": "linear"}, DamagedModel, "not an object"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 2.0}}, DamagedModel, "'low_freq_factor' is missing"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0,
                              "original_max_position_embeddings": 64}}, DamagedModel, "is not below"),
        ({"partial_rotary_factor": 0.5}, UnsupportedModel, "only a part of each head"),
    ],
    ids=str,
)  # fmt: skip
def test_a_config_that_cannot_be_run_is_refused_by_name(
    directory: Path, changes: dict[str, Any], error: type[Exception], reason: str
) -> None:
    write_json(directory / "config.json", CONFIG | changes)
    with pytest.raises(error) as caught:
        open_safetensors_dir(directory)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b'{"hidden_size": ' + b"9" * 5000]
)
def test_a_config_that_is_no_object_is_refused(directory: Path, text: bytes) -> None:
    (directory / "config.json").write_bytes(text)
    with pytest.raises(DamagedModel, match=r"config\.json: this is"):
        open_safetensors_dir(directory)


def described(**entry: Any) -> bytes:
    header = json.dumps({"t": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]} | entry}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(32)


@pytest.mark.parametrize(
    ("data", "error", "reason"),
    [
        (b"", DamagedModel, "a header of 0 bytes in a file of 0"),
        (b"\x10\0\0", DamagedModel, "truncated"),
        (struct.pack("<Q", 2**63) + b"{}", DamagedModel, "truncated"),
        (struct.pack("<Q", 2) + b"[]", DamagedModel, "not an object"),
        (struct.pack("<Q", 8) + b'{"t": 3}', DamagedModel, "described by 3"),
        (described(dtype="I8"), UnsupportedModel, "stored as 'I8'; supported are F32, F16, BF16"),
        (described(dtype=[]), UnsupportedModel, "stored as []"),
        (described(shape=[2, -4]), DamagedModel, "where whole numbers belong"),
        (described(shape="24"), DamagedModel, "where whole numbers belong"),
        (described(shape=[]), DamagedModel, "has the shape ()"),
        (described(shape=[2, 4, 0]), DamagedModel, "has the shape (2, 4, 0)"),
        (described(shape=[2**40, 2**40]), DamagedModel, "takes"),
        (described(data_offsets=[0, 28]), DamagedModel, "takes 32 bytes, not 28"),
        (described(data_offsets=[4, 36]), DamagedModel, "4 bytes past the file's end"),
        (described(data_offsets=[0]), DamagedModel, "the offsets (0,)"),
    ],
)
def test_a_weights_file_that_contradicts_itself_is_refused(
    tmp_path: Path, data: bytes, error: type[Exception], reason: str
) -> None:
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(error) as caught:
        SafetensorsFile(tmp_path / "model.safetensors").tensor("t")
    assert reason in str(caught.value)


def test_weights_cut_anywhere_are_called_damaged(directory: Path) -> None:
    path = directory / "model.safetensors"
    size = path.stat().st_size
    header_bytes = 8 + int.from_bytes(path.read_bytes()[:8], "little")
    for stop in reversed((*range(0, header_bytes, 7), *range(header_bytes, size, 997), size - 1)):
        os.truncate(path, stop)
        with pytest.raises(DamagedModel):
            use(directory)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(random=st.randoms(use_true_random=False), num_flips=st.integers(1, 4))
def test_flipped_bytes_raise_our_errors_or_nothing(directory: Path, random: Any, num_flips: int) -> None:
    path = directory / random.choice(["model.safetensors", "config.json", "tokenizer.json"])
    original = path.read_bytes()
    damaged = bytearray(original)
    for _ in range(num_flips):
        damaged[random.randrange(min(len(damaged), 3000))] = random.choice(
            [*b'0-9"{}[],:.e\\', random.randrange(256)]
        )
    path.write_bytes(damaged)
    try:
        use(directory)
    except HalflineError:
        pass
    finally:
        path.write_bytes(original)


def test_the_vocabulary_is_the_tokenizer_and_what_the_configs_add(directory: Path) -> None:
    write_json(directory / "generation_config.json", {"eos_token_id": [257, 3], "bos_token_id": 256})
    write_json(
        directory / "tokenizer_config.json", {"add_bos_token": True, "chat_template": "{{ messages }}"}
    )
    vocab = open_safetensors_dir(directory).vocab
    assert vocab.kind == "tokenizer_json"
    assert vocab.tokenizer_json == (directory / "tokenizer.json").read_bytes()
    assert (vocab.bos_id, vocab.eos_ids, vocab.add_bos) == (256, (257, 3), True)
    assert vocab.chat_template == "{{ messages }}"


@pytest.mark.parametrize(
    ("post_processor", "add_bos"),
    [
        (None, False),
        ({"type": "ByteLevel"}, False),
        (
            {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
            },
            True,
        ),
        ({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}]}, False),
        (
            {
                "type": "Sequence",
                "processors": [
                    {"type": "ByteLevel"},
                    {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}]},
                ],
            },
            True,
        ),
    ],
)
def test_bos_is_added_unsaid_when_the_tokenizer_itself_adds_it(
    directory: Path, post_processor: Any, add_bos: bool
) -> None:
    write_json(directory / "tokenizer.json", TOKENIZER | {"post_processor": post_processor})
    assert open_safetensors_dir(directory).vocab.add_bos is add_bos
    write_json(directory / "tokenizer_config.json", {"add_bos_token": False})
    assert open_safetensors_dir(directory).vocab.add_bos is False


def test_a_template_is_found_in_its_file_or_by_its_name(directory: Path) -> None:
    templates = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]
    write_json(directory / "tokenizer_config.json", {"chat_template": templates})
    assert open_safetensors_dir(directory).vocab.chat_template == "plain"
    (directory / "chat_template.jinja").write_text("file")
    assert open_safetensors_dir(directory).vocab.chat_template == "file"


def test_a_directory_without_a_usable_tokenizer_says_what_to_do(directory: Path) -> None:
    (directory / "tokenizer.json").unlink()
    with pytest.raises(DamagedModel, match=r"tokenizer\.json is missing"):
        _ = open_safetensors_dir(directory).vocab
    (directory / "tokenizer.model").write_bytes(b"sp")
    with pytest.raises(UnsupportedModel, match="convert the model to GGUF"):
        _ = open_safetensors_dir(directory).vocab


def test_ids_that_are_none_are_refused(directory: Path) -> None:
    write_json(directory / "config.json", CONFIG | {"eos_token_id": [257, "</s>"]})
    with pytest.raises(DamagedModel, match="'eos_token_id' is"):
        _ = open_safetensors_dir(directory).vocab
