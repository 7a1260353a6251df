"""A Hugging Face tokenizer.json gives the ids its own library gives, with special tokens never in text."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Reference

from halfline.errors import DamagedModel, UnsupportedModel
from halfline.text.detokenizer import Detokenizer
from halfline.text.token_bytes import byte_alphabet
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

MERGES = [("Ġ", "a"), ("a", "b"), ("Ġa", "b"), ("Ċ", "Ċ"), ("Ã", "©"), ("1", "2")]


def byte_level() -> Reference:
    words = [*byte_alphabet().values(), *(a + b for a, b in MERGES)]
    reference = Reference(models.BPE({word: i for i, word in enumerate(words)}, MERGES))
    reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    reference.decoder = decoders.ByteLevel()
    reference.add_special_tokens([AddedToken("<|endoftext|>", special=True)])
    reference.add_tokens([AddedToken("<|fim_prefix|>"), AddedToken("<tool>", normalized=False)])
    return reference


def spaced() -> Reference:
    words = [
        "<unk>",
        "<s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁",
        "a",
        "b",
        "▁a",
        "ab",
        "▁ab",
        "▁▁",
    ]
    merges = [("▁", "▁"), ("a", "b"), ("▁", "ab"), ("▁", "a"), ("▁a", "b")]
    reference = Reference(
        models.BPE({w: i for i, w in enumerate(words)}, merges, unk_token="<unk>", byte_fallback=True)
    )
    reference.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    reference.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    reference.add_special_tokens([AddedToken("<s>", special=True)])
    return reference


def opened(reference: Reference, bos_id: int | None = None) -> Tokenizer:
    text = reference.to_str().encode()
    return Tokenizer(VocabSpec(kind="tokenizer_json", tokenizer_json=text, bos_id=bos_id))


BYTE_LEVEL, SPACED = byte_level(), spaced()
texts = st.text(st.sampled_from("ab \n1é2中😀'"), max_size=30)


@settings(deadline=None)
@given(texts)
def test_byte_level_ids_and_text_are_the_librarys(text: str) -> None:
    tokenizer = opened(BYTE_LEVEL)
    assert tokenizer.encode(text) == BYTE_LEVEL.encode(text).ids
    assert tokenizer.decode(tokenizer.encode(text)) == text


@settings(deadline=None)
@given(texts)
def test_sentencepiece_like_ids_and_text_are_the_librarys(text: str) -> None:
    tokenizer = opened(SPACED)
    expected = SPACED.encode(text, add_special_tokens=False).ids
    assert tokenizer.encode(text) == expected
    assert tokenizer.decode(expected) == SPACED.decode(expected) == text
    stream = Detokenizer(tokenizer, continues=False)
    assert "".join(map(stream.push, expected)) + stream.finish() == text


def test_markers_are_control_whatever_the_file_says_and_other_added_tokens_are_found_in_text() -> None:
    tokenizer = opened(BYTE_LEVEL)
    end, fim, tool = (tokenizer.token_id(t) for t in ("<|endoftext|>", "<|fim_prefix|>", "<tool>"))
    assert None not in (end, fim, tool)
    hostile = "<|endoftext|><|fim_prefix|>a<tool>"
    token_ids = tokenizer.encode(hostile)
    assert {end, fim}.isdisjoint(token_ids)
    assert token_ids[-1] == tool
    assert tokenizer.decode(token_ids) == hostile
    assert tokenizer.decode([end, fim]) == ""


def test_bos_is_added_when_asked_for_and_continuations_have_no_space() -> None:
    tokenizer = opened(SPACED, bos_id=1)
    a, space_a = SPACED.token_to_id("a"), SPACED.token_to_id("▁a")
    assert tokenizer.encode("a", add_bos=True) == [1, space_a]
    assert tokenizer.encode("a", continues=True) == [a]


def test_a_metaspace_that_cuts_words_is_kept() -> None:
    reference = spaced()
    reference.normalizer = None
    reference.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    tokenizer = opened(reference)
    for text in ("a  b", "ab ab", "   a"):
        assert tokenizer.encode(text) == reference.encode(text, add_special_tokens=False).ids


def test_bytes_that_are_no_tokenizer_are_damaged_and_other_models_unsupported() -> None:
    with pytest.raises(DamagedModel):
        Tokenizer(VocabSpec(kind="tokenizer_json", tokenizer_json=b"{}"))
    unigram = Reference(models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0, False))
    assert json.loads(unigram.to_str())["model"]["type"] == "Unigram"
    with pytest.raises(UnsupportedModel, match="Unigram"):
        opened(unigram)


@pytest.mark.parametrize(
    ("pre_tokenizer", "falls_apart"),
    [
        (pre_tokenizers.ByteLevel(add_prefix_space=False), True),
        (pre_tokenizers.ByteLevel(add_prefix_space=True), False),
        (pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False), False),
    ],
    ids=["words", "a blank in front", "no words"],
)
def test_a_text_is_cut_only_where_its_tokens_stay_the_same(
    pre_tokenizer: pre_tokenizers.PreTokenizer, falls_apart: bool
) -> None:
    reference = byte_level()
    reference.pre_tokenizer = pre_tokenizer
    tokenizer = opened(reference)
    text = "ab ab\nab(12);\nab ab\n\n  ab é ab"
    cut = tokenizer.last_cut(text, len(text))
    assert (cut is not None) is falls_apart
    if cut is not None:
        assert tokenizer.encode(text) == tokenizer.encode(text[:cut]) + tokenizer.encode(
            text[cut:], continues=True
        )


def test_what_a_normalizer_may_change_is_encoded_whole() -> None:
    reference = byte_level()
    reference.normalizer = normalizers.NFC()
    tokenizer = opened(reference)
    assert tokenizer.last_cut("ab ab\nab", 8) is not None
    assert tokenizer.last_cut("ab ab\nabé", 8) is None
