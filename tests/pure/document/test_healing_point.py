"""The prompt ends before the word that the cursor cuts, at a whole character and a whole token."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.document.encoded_text import TextEncoder
from halfline.document.healing_point import MAX_FORCED_BYTES, healing_point
from halfline.model.random_model import byte_vocab
from halfline.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(byte_vocab())
ENCODER = TextEncoder(TOKENIZER, continues=True)


def forced(text: str) -> str | None:
    encoded = ENCODER.encode(text)
    point = healing_point(TOKENIZER, ENCODER, encoded)
    if point is None:
        return None
    assert TOKENIZER.decode(encoded.token_ids[: point.num_tokens]) == text[: point.place]
    return text[point.place :]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("return sel", " sel"),
        ("return ", " "),
        ("f(x", "x"),
        ("f(", "("),
        ("a = b  ", "  "),
        ("if x:\n    ", "\n    "),
        ("if x:\r\n\t", "\r\n\t"),
        ("'🎉", "'🎉"),
        ("word", "word"),
        ("", None),
    ],
)
def test_the_last_word_is_left_to_the_model(text: str, expected: str | None) -> None:
    assert forced(text) == expected


def test_of_an_endless_word_only_the_last_token_is_left_to_the_model() -> None:
    assert forced("x" * 1000) == "x"
    assert forced("日本語" * 100) is None, "its last token is a part of a character"


@settings(deadline=None, max_examples=200)
@given(st.text("ab 1(\n\té日🎉_'", max_size=300))
def test_nothing_is_lost_whatever_the_text(text: str) -> None:
    rest = forced(text)
    assert rest is None or 0 < len(rest.encode()) <= MAX_FORCED_BYTES


def test_what_stands_far_before_the_cursor_does_not_matter() -> None:
    line = "    let value = other.method(arg"
    assert forced("x = 1;\n" * 500 + line) == forced(line) == "arg"
