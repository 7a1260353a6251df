"""Streaming gives the same text as decoding everything at once, and never half a character."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from halfline.text.detokenizer import Detokenizer
from halfline.text.token_bytes import byte_alphabet
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

EXTRA = ("<eos>", "Ġthe", "ðŁĺ", "ĢĠa", "Ã©Ã", "<tag>")
BYTES = Tokenizer(
    VocabSpec(
        kind="bpe",
        tokens=(*byte_alphabet().values(), *EXTRA),
        token_types=(1,) * 256 + (3, 1, 1, 1, 1, 4),
        pre_tokenizer="gpt-2",
        eos_ids=(256,),
    )
)
PIECES = (
    "<unk>",
    "<s>",
    "</s>",
    *(f"<0x{byte:02X}>" for byte in range(256)),
    "▁",
    "▁▁",
    "▁a",
    "b",
    "é",
    "\n",
)
SPACED = Tokenizer(
    VocabSpec(
        kind="sentencepiece",
        tokens=PIECES,
        token_types=(2, 3, 3) + (6,) * 256 + (1,) * 6,
        scores=(0.0,) * len(PIECES),
        bos_id=1,
        eos_ids=(2,),
    )
)


@pytest.mark.parametrize("tokenizer", [BYTES, SPACED], ids=["byte-level", "sentencepiece"])
@settings(deadline=None)
@given(data=st.data())
def test_the_pieces_joined_are_the_whole_decode(tokenizer: Tokenizer, data: st.DataObject) -> None:
    ids = st.integers(0, tokenizer.vocab_size)
    likely = st.integers(tokenizer.vocab_size - 8, tokenizer.vocab_size - 1)
    token_ids = data.draw(st.lists(st.one_of(ids, likely), max_size=30))
    continues = data.draw(st.booleans())
    stream = Detokenizer(tokenizer, continues=continues)
    pieces = [stream.push(token_id) for token_id in token_ids]
    assert "".join(pieces) + stream.finish() == tokenizer.decode(token_ids, continues=continues)


@settings(deadline=None)
@given(st.text(max_size=20))
@example("👩‍👩‍👧é")
def test_valid_text_never_shows_a_replacement_on_the_way(text: str) -> None:
    stream = Detokenizer(BYTES)
    pieces = [stream.push(byte_id(byte)) for byte in text.encode()]
    assert "".join(pieces) == text
    assert pieces.count("") == len(text.encode()) - len(text)
    assert stream.finish() == ""


def test_a_character_cut_off_at_the_end_becomes_a_replacement() -> None:
    stream = Detokenizer(BYTES)
    assert [stream.push(byte_id(byte)) for byte in "a😀".encode()[:-1]] == ["a", "", "", ""]
    assert stream.finish() == "\ufffd"


def test_special_tokens_are_silent_and_do_not_break_a_character() -> None:
    stream = Detokenizer(BYTES)
    first, second = "é".encode()
    assert [stream.push(i) for i in (byte_id(first), 256, byte_id(second), 261)] == ["", "", "é", "<tag>"]


def test_a_completion_keeps_its_leading_space_and_a_text_loses_the_one_put_before_it() -> None:
    token_ids = [PIECES.index("▁a"), PIECES.index("b")]
    assert SPACED.decode(token_ids) == "ab"
    assert SPACED.decode(token_ids, continues=True) == " ab"
    assert [Detokenizer(SPACED).push(token_id) for token_id in token_ids[:1]] == [" a"]
    assert Detokenizer(SPACED, continues=False).push(token_ids[0]) == "a"


def byte_id(byte: int) -> int:
    return list(byte_alphabet()).index(byte)
