"""A changed text's tokens are those of the text, however it came about."""

import random

import pytest

from halfline.document.encoded_text import EncodedText, TextEncoder, common_length
from halfline.model.random_model import byte_vocab
from halfline.text.pretokenizers import PRE_TOKENIZERS
from halfline.text.token_bytes import byte_alphabet
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

PIECES = (
    *(
        "a",
        "fn",
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "(",
        ");",
        "é",
        "日本",
        "🎉",
        "1",
        "'s",
        "\n\n    ",
        " x",
        "\x04",
    ),
    *(
        "it's",
        "x_a=",
        ".a",
        "12",
        "-",
        "('",
        "\\",
        "@a.fn",
        "==",
        "a\nb",
        "//",
        "1.",
        "f\t",
        "_",
        "a\u0301",
        "=\n",
    ),
)


def merging_vocab(pre_tokenizer: str, *, gaps: bool = False) -> Tokenizer:
    """Bytes, and a few longer tokens; with `gaps` the byte 4 has none."""
    alphabet = byte_alphabet()
    bytes_ = [char for byte, char in alphabet.items() if not (gaps and byte == 4)]
    space, newline = alphabet[32], alphabet[10]
    merges = [("f", "n"), (space, space), (space, "x"), (newline, newline), (newline, space), ("a", "fn")]
    merges += [
        (space + space, space),
        (")", ";"),
        ("a", "a"),
        ("aa", "a"),
        ("_", "a"),
        (".", "a"),
        ("n", "_"),
    ]
    merges += [("a", "("), ("1", "."), ("a", newline), (";", newline), ("1", "2"), ("=", newline), ("a", "'")]
    tokens = (*bytes_, *("".join(pair) for pair in merges))
    return Tokenizer(
        VocabSpec(
            kind="bpe",
            tokens=tokens,
            token_types=(1,) * len(tokens),
            merges=tuple(" ".join(pair) for pair in merges),
            pre_tokenizer=pre_tokenizer,
        )
    )


def sentencepiece() -> Tokenizer:
    tokens = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁",
        "a",
        "f",
        "n",
        "x",
        "fn",
        "▁x",
    ]
    types = [2, 3, 3] + [6] * 256 + [1] * 7
    return Tokenizer(
        VocabSpec(
            kind="sentencepiece",
            tokens=tuple(tokens),
            token_types=tuple(types),
            scores=tuple(float(-i) for i in range(len(tokens))),
            bos_id=1,
            eos_ids=(2,),
            add_bos=True,
        )
    )


TOKENIZERS = {
    "bytes": Tokenizer(byte_vocab()),
    **{name: merging_vocab(name) for name in PRE_TOKENIZERS},
    "gaps": merging_vocab("smollm", gaps=True),
    "sentencepiece": sentencepiece(),
}


def edited(text: str, rng: random.Random) -> str:
    place = rng.randrange(len(text) + 1)
    match rng.randrange(4):
        case 0 | 1:
            return text + rng.choice(PIECES)
        case 2:
            return text[:place] + rng.choice(PIECES) + text[place:]
        case _:
            return text[:place] + text[place + rng.randrange(8) :]


def assert_same(a: EncodedText, b: EncodedText) -> None:
    assert (a.text, list(a.token_ids), list(a.ends)) == (b.text, list(b.token_ids), list(b.ends))


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("continues", [True, False], ids=["continues", "begins"])
def test_after_any_edits_the_tokens_are_those_of_the_whole_text(name: str, continues: bool) -> None:
    encoder = TextEncoder(TOKENIZERS[name], continues=continues)
    rng = random.Random(name)
    known = encoder.encode("fn a(x);\n    fn b\n" * 5)
    for _ in range(300):
        text = edited(known.text, rng)
        known = encoder.change(known, text)
        assert_same(known, encoder.encode(text))


def test_what_is_typed_is_all_that_is_encoded() -> None:
    lengths: list[int] = []

    class Watched(Tokenizer):
        def encode(self, text: str, *, add_bos: bool | None = None, continues: bool = False) -> list[int]:
            lengths.append(len(text))
            return super().encode(text, add_bos=add_bos, continues=continues)

    encoder = TextEncoder(Watched(byte_vocab()), continues=False)
    known = encoder.encode("let x = 1;\n" * 200)
    for character in "let y = x;\n":
        known = encoder.change(known, known.text + character)
    assert lengths[0] == 2200
    assert max(lengths[1:]) < 30


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_token_starts_at_a_character_or_within_one(name: str) -> None:
    encoder = TextEncoder(TOKENIZERS[name], continues=True)
    encoded = encoder.encode("fn aé日🎉x\x04")
    starts = [encoder.start_of(encoded, position) for position in range(len(encoded))]
    assert starts[0] == 0
    if name == "gaps":
        assert starts[1:] == [None] * (len(encoded) - 1)
    else:
        known = [start for start in starts if start is not None]
        assert known == sorted(known)
        assert len(encoded) > len(known), "the emoji is more than one token"
        for position, start in enumerate(starts):
            if start is not None:
                rest = b"".join(TOKENIZERS[name].token_bytes(i) for i in encoded.token_ids[position:])
                assert rest.decode() == encoded.text[start:]


def test_common_beginnings_are_as_long_as_they_are() -> None:
    rng = random.Random(3)
    for _ in range(300):
        a, b = ("".join(rng.choice("ab") for _ in range(rng.randrange(9))) for _ in range(2))
        expected = next(
            (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
        )
        assert common_length(a, b) == expected
