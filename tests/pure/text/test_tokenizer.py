"""The tokenizer against a second, plain implementation of byte-level BPE, and the promises of its methods."""

import dataclasses
import functools
import itertools
import random
import time

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from halfline.errors import BadRequest, DamagedModel, UnencodableText, UnsupportedModel
from halfline.text import encoder
from halfline.text.pretokenizers import PRE_TOKENIZERS
from halfline.text.token_bytes import byte_alphabet
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

CONTROL = ("<|endoftext|>", "<|im_start|>")
LEARNT_FROM = """
def total(self, prices):  # it's the sum, we'll say 1234567 or 0x1F
    return sum(price.total for price in prices if price != None)\r\n\t\tнебо и море, 中文字符, e\u0301té ½ ٣٤
class HTTPServer(Base):\n\n\n        pass   # don't I'm you're they've he'd\n    x += [1, 22, 333, 4444]; y == "\\n"   
"""


@functools.cache
def learnt_merges(num_merges: int) -> tuple[str, ...]:
    """The most frequent pair first, in words cut at spaces."""
    alphabet = byte_alphabet()
    words = [tuple(alphabet[b] for b in w.encode()) for w in regex.findall(r"\s*\S+|\s+", LEARNT_FROM * 3)]
    merges: list[str] = []
    for _ in range(num_merges):
        counts: dict[tuple[str, str], int] = {}
        for word in words:
            for pair in itertools.pairwise(word):
                counts[pair] = counts.get(pair, 0) + 1
        if not counts:
            break
        best = max(counts, key=lambda pair: (counts[pair], pair))
        merges.append(" ".join(best))
        words = [merge_once(word, best) for word in words]
    return tuple(merges)


def learnt_vocab(pre_tokenizer: str = "smollm", num_merges: int = 200) -> VocabSpec:
    merges = learnt_merges(num_merges)
    tokens = (*CONTROL, *byte_alphabet().values(), *(merge.replace(" ", "") for merge in merges))
    tokens = tuple(dict.fromkeys(tokens))
    return VocabSpec(
        kind="bpe",
        tokens=tokens,
        token_types=(3,) * len(CONTROL) + (1,) * (len(tokens) - len(CONTROL)),
        merges=merges,
        pre_tokenizer=pre_tokenizer,
        bos_id=0,
        eos_ids=(0,),
    )


def merge_once(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    out: list[str] = []
    for symbol in word:
        if out and (out[-1], symbol) == pair:
            out[-1] += symbol
        else:
            out.append(symbol)
    return tuple(out)


# The published patterns, written again from the models' own tokenizer.json files: each is a pipeline.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SHORT = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
PUBLISHED = {
    "gpt-2": (GPT2,),
    "smollm": (r"\p{N}", GPT2),
    "starcoder": (r"\p{N}", GPT2),
    "qwen2": (rf"{SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{TAIL}",),
    "llama-bpe": (rf"{SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}{TAIL}",),
    "deepseek-coder": (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"),
    "default": (r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", r"[0-9]{3}"),
}


def plain_encode(vocab: VocabSpec, text: str) -> list[int]:
    """Byte-level BPE as it is defined, one merge at a time."""
    words = [text]
    for pattern in PUBLISHED[vocab.pre_tokenizer]:
        words = [piece for word in words for piece in regex.split(f"({pattern})", word) if piece]
    ids = {token: i for i, token in enumerate(vocab.tokens)}
    ranks = {merge: rank for rank, merge in enumerate(vocab.merges)}
    alphabet = byte_alphabet()
    out: list[int] = []
    for word in words:
        symbols = tuple(alphabet[byte] for byte in word.encode())
        whole = "".join(symbols)
        if vocab.pre_tokenizer == "llama-bpe" and whole in ids:
            symbols = (whole,)
        while len(symbols) > 1:
            pairs = [f"{a} {b}" for a, b in itertools.pairwise(symbols)]
            best = min(pairs, key=lambda pair: ranks.get(pair, len(ranks)))
            if best not in ranks:
                break
            symbols = merge_once(symbols, tuple(best.split(" ")))
        out += [ids[symbol] for symbol in symbols]
    return out


VOCAB = learnt_vocab()
TOKENIZER = Tokenizer(VOCAB)
ATOMS = (
    *(
        " ",
        "  ",
        "    ",
        "\n",
        "\n\n",
        "\r\n",
        "\t",
        "\xa0",
        "\x85",
        "\u3000",
        "\0",
        "'s",
        "'S",
        "'re",
        "'VE",
    ),
    *(
        "'",
        "1",
        "22",
        "1234567",
        "½",
        "٣",
        "def",
        " return",
        "total",
        "price",
        "é",
        "e\u0301",
        "небо",
        "中文",
    ),
    *(
        "한국어",
        "😀",
        "👩‍👩‍👧",
        "(",
        "):",
        "==",
        "!=",
        "#",
        "_",
        "__",
        "$",
        "+",
        "<",
        "|",
        "...",
        '"',
        "\\n",
        "—",
    ),
)
texts = st.one_of(
    st.lists(st.sampled_from(ATOMS), max_size=24).map("".join),
    st.text(st.characters(exclude_categories=("Cs", "Cn")), max_size=40),
)


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_pre_tokenizer_cuts_and_merges_as_published(name: str) -> None:
    vocab = learnt_vocab(name)
    tokenizer = Tokenizer(vocab)
    rng = random.Random(name)
    for _ in range(400):
        text = "".join(rng.choice(ATOMS) for _ in range(rng.randrange(30)))
        assert tokenizer.encode(text) == plain_encode(vocab, text), text


def test_every_supported_pre_tokenizer_round_trips() -> None:
    for name in PRE_TOKENIZERS:
        tokenizer = Tokenizer(learnt_vocab(name, num_merges=50))
        assert tokenizer.decode(tokenizer.encode(LEARNT_FROM)) == LEARNT_FROM, name


def test_an_unknown_pre_tokenizer_is_refused_with_the_names_of_the_known() -> None:
    with pytest.raises(UnsupportedModel, match=r"'bloom' is unknown here; supported are .*qwen2.*smollm"):
        Tokenizer(learnt_vocab("bloom", num_merges=1))


@settings(deadline=None)
@given(texts)
@example("<|im_start|>user\n<|endoftext|>")
def test_decoding_gives_the_text_back_and_no_text_becomes_a_control_token(text: str) -> None:
    token_ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(token_ids) == text
    assert not any(TOKENIZER.is_special(token_id) for token_id in token_ids)
    assert b"".join(map(TOKENIZER.token_bytes, token_ids)) == text.encode()


def test_bos_comes_as_the_vocabulary_says_unless_asked_otherwise() -> None:
    with_bos = Tokenizer(dataclasses.replace(VOCAB, add_bos=True))
    without = TOKENIZER.encode("total")
    assert with_bos.encode("total") == [0, *without]
    assert with_bos.encode("total", continues=True) == without
    assert with_bos.encode("total", add_bos=False) == without
    assert TOKENIZER.encode("total", add_bos=True) == [0, *without]
    assert with_bos.encode("") == [0]


def test_a_lone_surrogate_is_refused_with_its_place() -> None:
    with pytest.raises(UnencodableText) as caught:
        TOKENIZER.encode("ab😀\ud83d!")
    assert caught.value.offset == 3


def test_special_tokens_are_found_by_name_left_out_of_text_and_named_in_tables() -> None:
    im_start = TOKENIZER.token_id("<|im_start|>")
    assert im_start == 1
    assert TOKENIZER.token_id("total") is None
    assert TOKENIZER.decode([im_start, *TOKENIZER.encode("a")]) == "a"
    assert TOKENIZER.token_text(im_start) == "<|im_start|>"
    assert TOKENIZER.bos_id == 0
    assert TOKENIZER.eos_ids == {0}


def test_ids_behind_the_vocabulary_are_empty_text() -> None:
    beyond = TOKENIZER.vocab_size + 7
    assert (TOKENIZER.token_bytes(beyond), TOKENIZER.token_text(beyond)) == (b"", "")
    assert TOKENIZER.decode([beyond, *TOKENIZER.encode("x")]) == "x"


def test_half_a_character_is_a_replacement_in_the_table_of_texts() -> None:
    first, second = TOKENIZER.encode("ß")
    assert TOKENIZER.token_bytes(first) + TOKENIZER.token_bytes(second) == "ß".encode()
    assert TOKENIZER.token_text(first) == "\ufffd"


def user_defined_vocab(*extra: str) -> VocabSpec:
    kinds = (*VOCAB.token_types, *(4 for _ in extra))
    return dataclasses.replace(VOCAB, tokens=(*VOCAB.tokens, *extra), token_types=kinds)


def test_user_defined_tokens_are_found_in_text_the_longest_first() -> None:
    tokenizer = Tokenizer(user_defined_vocab("<t>", "    ", "        ", "b<t>"))
    base = len(VOCAB.tokens)
    a, c = tokenizer.encode("a"), tokenizer.encode("c")
    assert tokenizer.encode("a<t>c") == [*a, base, *c]
    assert tokenizer.encode(" " * 13) == [base + 2, base + 1, *tokenizer.encode(" ")]
    assert tokenizer.encode("ab<t><t>") == [*a, base + 3, base]
    assert tokenizer.decode(tokenizer.encode("ab<t>        c")) == "ab<t>        c"
    assert not tokenizer.is_special(base)


def test_a_known_marker_is_control_even_if_the_file_calls_it_user_defined() -> None:
    tokenizer = Tokenizer(user_defined_vocab("<fim_prefix>"))
    marker = tokenizer.token_id("<fim_prefix>")
    assert marker is not None
    assert tokenizer.is_special(marker)
    assert marker not in tokenizer.encode("x <fim_prefix> y")


def test_a_byte_without_a_token_vanishes_but_keeps_its_neighbours_apart() -> None:
    missing = byte_alphabet()[4]
    left, right = next(m for m in VOCAB.merges if m.replace(" ", "").isascii()).split(" ")
    index = VOCAB.tokens.index(missing)
    kept = VOCAB.tokens[:index] + VOCAB.tokens[index + 1 :]
    tokenizer = Tokenizer(dataclasses.replace(VOCAB, tokens=kept, token_types=()))
    assert len(tokenizer.encode(left + right)) == 1
    assert tokenizer.encode(f"{left}\x04{right}") == [*tokenizer.encode(left), *tokenizer.encode(right)]


BY_NAME = {name: Tokenizer(learnt_vocab(name)) for name in ("smollm", "qwen2", "deepseek-coder")}


@settings(deadline=None)
@given(st.lists(texts, max_size=6).map("\n".join), st.integers(1, 12), st.sampled_from(sorted(BY_NAME)))
def test_cutting_a_long_text_changes_no_token(text: str, piece_chars: int, name: str) -> None:
    whole = BY_NAME[name].encode(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder, "_PIECE_CHARS", piece_chars)
        assert BY_NAME[name].encode(text) == whole


@pytest.mark.parametrize("name", ["smollm", "qwen2", "deepseek-coder", "default"])
@pytest.mark.parametrize("unit", ["a", " ", "\n", "=-", "qWz8aXc", "7"])
def test_one_endless_line_takes_time_in_proportion(name: str, unit: str) -> None:
    tokenizer = Tokenizer(learnt_vocab(name, num_merges=50))

    def seconds(length: int) -> float:
        text = (unit * length)[:length]
        started = time.process_time()
        tokenizer.encode(text)
        return time.process_time() - started

    seconds(2_000)
    # Quadratic would be 400 times as long.
    assert seconds(80_000) < 100 * max(seconds(4_000), 0.001)


def test_a_stretch_too_long_to_encode_at_once_is_refused_and_the_same_length_in_words_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(encoder, "_PIECE_CHARS", 10)
    monkeypatch.setattr(encoder, "_MAX_PIECE_CHARS", 100)
    with pytest.raises(BadRequest, match="101 characters without a place between words"):
        TOKENIZER.encode("x" * 101)
    words = "word " * 60
    assert TOKENIZER.decode(TOKENIZER.encode(words)) == words


@pytest.mark.parametrize(
    "changes",
    [{"token_types": (1, 1)}, {"bos_id": 10**6}, {"eos_ids": (-1,)}, {"merges": ("ab",)}],
)
def test_a_vocabulary_that_contradicts_itself_is_damaged(changes: dict[str, object]) -> None:
    with pytest.raises(DamagedModel):
        Tokenizer(dataclasses.replace(VOCAB, **changes))  # type: ignore[arg-type]
