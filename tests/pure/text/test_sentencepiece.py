"""SentencePiece vocabularies against the sentencepiece library, on models trained here."""

import io
import random
from itertools import cycle, islice

import pytest
import sentencepiece

from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

LINES = (
    "def total(self, prices):",
    "    return sum(price.total for price in prices if price != None)",
    "        for index, value in enumerate(values): print(index, value)",
    "the quick brown fox jumps over the lazy dog, again and again and again",
    "while (i < 10) { i += 1; aaaa(aaa, aa, a); } // ababab bababa",
    "            deeply(nested) = {'key': [1, 22, 333, 4444], \"other\": None}",
    "élan naïve café — “quoted” 中文 текст",
)
ATOMS = (
    *(
        " ",
        "  ",
        "     ",
        "\n",
        "\n\n",
        "\t",
        "\r\n",
        "\0",
        "▁",
        "a",
        "aa",
        "aaa",
        "ab",
        "ba",
        "the",
        " return",
    ),
    *(
        "price",
        " for",
        "(",
        ")",
        "):",
        "0",
        "22",
        "333",
        "é",
        "e\u0301",
        "中",
        "文字",
        "😀",
        "💡",
        "—",
        "<0x41>",
        "<s>",
    ),
)


def trained(whitespace_only: bool) -> sentencepiece.SentencePieceProcessor:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=islice(cycle(LINES), 700),
        model_writer=model,
        model_type="bpe",
        vocab_size=600,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=whitespace_only,
        split_by_whitespace=not whitespace_only,
        character_coverage=0.98,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def vocab_of(processor: sentencepiece.SentencePieceProcessor) -> VocabSpec:
    ids = range(processor.get_piece_size())

    def kind(i: int) -> int:
        return (
            2
            if processor.is_unknown(i)
            else 3
            if processor.is_control(i)
            else 6
            if processor.is_byte(i)
            else 1
        )

    return VocabSpec(
        kind="sentencepiece",
        tokens=tuple(processor.id_to_piece(i) for i in ids),
        token_types=tuple(kind(i) for i in ids),
        scores=tuple(processor.get_score(i) for i in ids),
        bos_id=processor.bos_id(),
        eos_ids=(processor.eos_id(),),
        add_bos=True,
    )


def fuzzed(seed: int) -> list[str]:
    rng = random.Random(seed)
    strings = ["".join(rng.choice(ATOMS) for _ in range(rng.randrange(1, 24))) for _ in range(1500)]
    runs = [rng.choice(ATOMS) * rng.randrange(1, 90) + rng.choice(ATOMS) for _ in range(300)]
    letters = ["".join(rng.choice("ab ▁") for _ in range(rng.randrange(1, 40))) for _ in range(700)]
    return [*LINES, *strings, *runs, *letters]


@pytest.fixture(scope="module", params=[False, True], ids=["words", "spaces inside tokens"])
def processor(request: pytest.FixtureRequest) -> sentencepiece.SentencePieceProcessor:
    return trained(request.param)


@pytest.fixture(scope="module")
def tokenizer(processor: sentencepiece.SentencePieceProcessor) -> Tokenizer:
    return Tokenizer(vocab_of(processor))


def test_ids_and_texts_are_those_of_sentencepiece(
    processor: sentencepiece.SentencePieceProcessor, tokenizer: Tokenizer
) -> None:
    for text in fuzzed(seed=3):
        token_ids = processor.encode(text)
        assert tokenizer.encode(text, add_bos=False) == token_ids, repr(text)
        assert tokenizer.decode(token_ids) == processor.decode(token_ids), repr(text)


def test_decoding_an_encoded_text_gives_it_back_with_bos_ignored(tokenizer: Tokenizer) -> None:
    for text in fuzzed(seed=4):
        token_ids = tokenizer.encode(text)
        assert token_ids[0] == tokenizer.bos_id
        # ▁ in a text is how SentencePiece writes a space: it cannot come back.
        assert tokenizer.decode(token_ids) == text.replace("▁", " ")


def test_a_text_that_continues_gets_no_space_and_no_bos(tokenizer: Tokenizer) -> None:
    for text in (" for price", "price", "\n    x", "é"):
        token_ids = tokenizer.encode(text, continues=True)
        assert tokenizer.decode(token_ids, continues=True) == text
    assert tokenizer.encode("", continues=True) == []


def test_a_vocabulary_without_byte_tokens_answers_unknown() -> None:
    vocab = VocabSpec(
        kind="sentencepiece",
        tokens=("<unk>", "<s>", "▁", "a", "▁a"),
        token_types=(2, 3, 1, 1, 1),
        scores=(0.0, 0.0, -1.0, -2.0, -0.5),
    )
    assert Tokenizer(vocab).encode("a中文a") == [4, 0, 3]
