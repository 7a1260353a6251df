"""What a GGUF file means: its spec, its vocabulary, and every reason to refuse it."""

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from halfline.errors import DamagedModel, UnsupportedModel
from halfline.model.checkpoint import Tensor, TensorFormat
from halfline.model.gguf import GgufFile
from halfline.model.gguf_checkpoint import open_gguf
from halfline.model.gguf_vocab import read_gguf_vocab
from halfline.model.quantize import quantize
from halfline.model.spec import LinearScaling


def f32(values: Any) -> Tensor:
    return quantize("", np.asarray(values, dtype=np.float32), TensorFormat.F32)


def test_a_file_gives_back_the_model_it_was_written_from(tiny_gguf: Any) -> None:
    checkpoint, original = open_gguf(tiny_gguf.write()), tiny_gguf.checkpoint
    eps = float(np.float32(original.spec.norm_eps))
    assert checkpoint.spec == replace(original.spec, name="tiny", norm_eps=eps)
    assert checkpoint.vocab == replace(original.vocab, add_space_prefix=False)
    assert set(checkpoint.names()) == set(original.names())
    for name in original.names():
        np.testing.assert_array_equal(checkpoint.tensor(name).data, original.tensor(name).data)


def test_the_vocabulary_is_decoded_only_when_asked_for(
    tiny_gguf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[str] = []
    strings = GgufFile.strings
    monkeypatch.setattr(GgufFile, "strings", lambda file, key: (decoded.append(key), strings(file, key))[1])
    checkpoint = open_gguf(tiny_gguf.write())
    assert decoded == []
    assert checkpoint.vocab is checkpoint.vocab
    assert sorted(decoded) == ["tokenizer.ggml.merges", "tokenizer.ggml.tokens"]


def test_a_closed_checkpoint_gives_no_more_tensors(tiny_gguf: Any) -> None:
    checkpoint = open_gguf(tiny_gguf.write())
    checkpoint.close()
    with pytest.raises(ValueError, match="closed"):
        checkpoint.tensor("embed.weight")
    with pytest.raises(ValueError, match="closed"):
        _ = checkpoint.vocab


def test_a_description_in_broken_utf_8_stops_nobody(tiny_gguf: Any) -> None:
    tiny_gguf.values["general.description"] = struct.pack("<IQ", 8, 2) + b"\xff\xfe"
    assert open_gguf(tiny_gguf.write()).spec.name == "tiny"


@pytest.mark.parametrize("name", ["blk.1.attn_q.weight", "output_norm.weight", "token_embd.weight"])
def test_a_missing_tensor_is_named(tiny_gguf: Any, name: str) -> None:
    del tiny_gguf.tensors[name]
    part = {"blk.1.attn_q.weight": "layers.1.q.weight", "output_norm.weight": "final_norm.weight"}.get(
        name, name
    )
    with pytest.raises(DamagedModel, match=f"'{part}' is missing"):
        open_gguf(tiny_gguf.write())


def test_a_bias_that_one_layer_lost_is_missed(tiny_gguf: Any) -> None:
    del tiny_gguf.tensors["blk.1.attn_v.bias"]
    with pytest.raises(DamagedModel, match=r"'layers\.1\.v\.bias' is missing"):
        open_gguf(tiny_gguf.write())


@pytest.mark.parametrize(
    ("name", "shape"),
    [("blk.0.ffn_up.weight", (64, 32)), ("blk.0.attn_k.bias", (8,)), ("output.weight", (258, 64))],
)
def test_a_wrong_shape_is_told_beside_the_right_one(
    tiny_gguf: Any, name: str, shape: tuple[int, ...]
) -> None:
    right = tiny_gguf.tensors[name].shape
    tiny_gguf.tensors[name] = f32(np.zeros(shape))
    with pytest.raises(DamagedModel) as caught:
        open_gguf(tiny_gguf.write())
    assert f"has the shape {shape} instead of {right}" in str(caught.value)


def test_a_tensor_that_no_family_has_is_not_ignored(tiny_gguf: Any) -> None:
    tiny_gguf.tensors["blk.0.attn_sinks.weight"] = f32([1, 2])
    with pytest.raises(UnsupportedModel, match=r"'blk\.0\.attn_sinks\.weight' is part of no model"):
        open_gguf(tiny_gguf.write())


def test_a_tensor_that_another_family_has_is_not_ignored(tiny_gguf: Any) -> None:
    tiny_gguf.tensors["blk.0.attn_q_norm.weight"] = f32(np.ones(8))
    with pytest.raises(
        UnsupportedModel, match=r"a qwen2 model with 2 layers has no tensor 'layers\.0\.q_norm"
    ):
        open_gguf(tiny_gguf.write())


@pytest.mark.parametrize(
    ("values", "error", "reason"),
    [
        ({"general.architecture": "deepseek2"}, UnsupportedModel, "a 'deepseek2' model; the families supported are"),
        ({"general.architecture": 3}, DamagedModel, "'general.architecture' is 3, not a text"),
        ({"split.count": 4}, UnsupportedModel, "one of 4 parts"),
        ({"qwen2.expert_count": 8}, UnsupportedModel, "a mixture of experts"),
        ({"qwen2.rope.scaling.type": "yarn"}, UnsupportedModel, "rope scaling 'yarn'; supported are none"),
        ({"qwen2.rope.scaling.type": "linear"}, DamagedModel, "'qwen2.rope.scaling.factor' is missing"),
        ({"qwen2.rope.dimension_count": 7}, DamagedModel, "7 rotary dimensions in heads of 8"),
        ({"qwen2.rope.dimension_count": 10}, DamagedModel, "10 rotary dimensions in heads of 8"),
        ({"qwen2.rope.freq_base": float("nan")}, DamagedModel, "freq_base' is nan, not a number above zero"),
        ({"qwen2.attention.value_length": 16}, UnsupportedModel, "keys of 8 and values of 16"),
        ({"qwen2.attention.head_count_kv": 3}, DamagedModel, "4 query heads cannot share 3 KV heads"),
        ({"qwen2.attention.head_count_kv": 0}, DamagedModel, "head_count_kv' is 0, not a whole number from 1"),
        ({"qwen2.attention.layer_norm_rms_epsilon": -1.0}, DamagedModel, "above zero"),
        ({"qwen2.block_count": 2**31}, DamagedModel, "block_count"),
        ({"qwen2.block_count": 2**31 - 1}, DamagedModel, "layers, more than any model has"),
        ({"qwen2.block_count": 1}, UnsupportedModel, "with 1 layers has no tensor"),
        ({"qwen2.embedding_length": "32"}, DamagedModel, "'qwen2.embedding_length' is '32'"),
        ({"qwen2.embedding_length": True}, DamagedModel, "'qwen2.embedding_length' is True"),
    ],
    ids=str,
)  # fmt: skip
def test_metadata_that_cannot_be_run_is_refused_by_name(
    tiny_gguf: Any, values: dict[str, Any], error: type[Exception], reason: str
) -> None:
    tiny_gguf.values |= values
    with pytest.raises(error) as caught:
        open_gguf(tiny_gguf.write())
    assert reason in str(caught.value)


@pytest.mark.parametrize("key", ["qwen2.block_count", "qwen2.context_length", "general.architecture"])
def test_a_missing_key_is_named(tiny_gguf: Any, key: str) -> None:
    del tiny_gguf.values[key]
    with pytest.raises(DamagedModel, match=f"'{key}' is missing"):
        open_gguf(tiny_gguf.write())


@pytest.mark.parametrize("factors", [[1.0] * 3, [1.0, 2.0, 0.0, 1.0], [1.0, 2.0, float("inf"), 1.0]], ids=str)
def test_rope_factors_that_make_no_sense_are_refused(tiny_gguf: Any, factors: list[float]) -> None:
    tiny_gguf.tensors["rope_freqs.weight"] = f32(factors)
    with pytest.raises(DamagedModel, match="does not hold 4 finite numbers above zero"):
        open_gguf(tiny_gguf.write())


def test_the_older_key_of_linear_scaling_is_understood(tiny_gguf: Any) -> None:
    tiny_gguf.values["qwen2.rope.scale_linear"] = 4.0
    assert open_gguf(tiny_gguf.write()).spec.rope.scaling == LinearScaling(4.0)


def test_a_sentencepiece_vocabulary_has_its_defaults(tiny_gguf: Any) -> None:
    tiny_gguf.values |= {"tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": (-1.5,) * 258}
    for key in ("bos", "eos"):
        del tiny_gguf.values[f"tokenizer.ggml.{key}_token_id"]
    vocab = read_gguf_vocab(GgufFile(tiny_gguf.write()))
    assert vocab.kind == "sentencepiece"
    assert vocab.scores == (-1.5,) * 258
    assert (vocab.bos_id, vocab.eos_ids, vocab.add_bos, vocab.add_space_prefix) == (1, (2,), True, True)


def test_every_token_that_ends_a_text_is_an_end(tiny_gguf: Any) -> None:
    tiny_gguf.values |= {"tokenizer.ggml.eot_token_id": 7, "tokenizer.ggml.eom_token_id": 257}
    assert read_gguf_vocab(GgufFile(tiny_gguf.write())).eos_ids == (257, 7)


@pytest.mark.parametrize(("pre_tokenizer", "add_bos"), [("llama-bpe", True), ("qwen2", False)])
def test_bos_is_added_unsaid_only_where_the_pre_tokenizer_means_it(
    tiny_gguf: Any, pre_tokenizer: str, add_bos: bool
) -> None:
    tiny_gguf.values["tokenizer.ggml.pre"] = pre_tokenizer
    assert read_gguf_vocab(GgufFile(tiny_gguf.write())).add_bos is add_bos
    tiny_gguf.values["tokenizer.ggml.add_bos_token"] = not add_bos
    assert read_gguf_vocab(GgufFile(tiny_gguf.write())).add_bos is not add_bos


@pytest.mark.parametrize(
    ("values", "error", "reason"),
    [
        ({"tokenizer.ggml.model": "bert"}, UnsupportedModel, "a 'bert' tokenizer; supported are gpt2, llama"),
        ({"tokenizer.ggml.model": "llama"}, DamagedModel, "'tokenizer.ggml.scores' is missing"),
        ({"tokenizer.ggml.tokens": 5}, DamagedModel, "'tokenizer.ggml.tokens' is missing or empty"),
        (
            {"tokenizer.ggml.token_type": (1, 1)},
            DamagedModel,
            "2 entries of 'tokenizer.ggml.token_type' for 258",
        ),
        ({"tokenizer.ggml.eos_token_id": 258}, DamagedModel, "is 258, but there are only 258 tokens"),
        ({"tokenizer.ggml.bos_token_id": "1"}, DamagedModel, "bos_token_id' is '1'"),
    ],
    ids=str,
)
def test_a_vocabulary_that_contradicts_itself_is_refused(
    tiny_gguf: Any, values: dict[str, Any], error: type[Exception], reason: str
) -> None:
    tiny_gguf.values |= values
    with pytest.raises(error) as caught:
        read_gguf_vocab(GgufFile(tiny_gguf.write()))
    assert reason in str(caught.value)
