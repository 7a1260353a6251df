"""The window ends at the cursor, fits, and stays put while text is typed."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.context.line_grid import LineGrid
from halfline.errors import UnencodableText
from halfline.model.random_model import byte_vocab
from halfline.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(byte_vocab())  # one token per byte


def code(num_lines: int, seed: int = 0) -> str:
    """Lines of 0 to 40 characters."""
    rng = random.Random(seed)
    return "".join("x" * rng.randrange(41) + "\n" for _ in range(num_lines))


def test_a_document_that_fits_is_taken_whole() -> None:
    assert LineGrid(TOKENIZER).start("a\nb\nc", 1024) == 0
    assert LineGrid(TOKENIZER).start("", 1024) == 0


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.text("ab é😀", max_size=120), max_size=60),
    st.integers(64, 400),
)
def test_the_window_fits_and_is_at_least_half_full(lines: list[str], max_tokens: int) -> None:
    prefix = "\n".join(lines)
    start = LineGrid(TOKENIZER).start(prefix, max_tokens)
    num_tokens = len(prefix[start:].encode())
    assert num_tokens <= max_tokens
    assert start == 0 or 2 * num_tokens >= max_tokens - 8, "a character may be several bytes"


def test_the_window_begins_at_a_line_unless_lines_are_endless() -> None:
    prefix = code(5000)
    assert prefix[LineGrid(TOKENIZER).start(prefix, 1024) - 1] == "\n"
    endless = "x" * 100_000
    start = LineGrid(TOKENIZER).start(endless, 1024)
    assert 512 <= len(endless) - start <= 1024


@pytest.mark.parametrize("typed", ["x", "y\n", "z" * 20 + "\n"], ids=["one line", "short lines", "lines"])
def test_typing_seldom_moves_the_window_and_then_by_a_whole_cell(typed: str) -> None:
    window = LineGrid(TOKENIZER)
    prefix = code(2000)
    starts = []
    for _ in range(2048 // len(typed)):
        prefix += typed
        starts.append(window.start(prefix, 1024))
    moves = sum(before != after for before, after in pairwise(starts))
    assert starts == sorted(starts)
    assert moves <= 2048 / 100, "a cell has eight lines or more, or many characters"


def test_an_edit_within_an_earlier_line_does_not_move_the_window() -> None:
    prefix = code(2000)
    window = LineGrid(TOKENIZER)
    edited = "something longer" + prefix
    assert window.start(edited, 1024) == window.start(prefix, 1024) + len("something longer")


def test_a_lone_surrogate_is_reported_where_it_stands_in_the_document() -> None:
    prefix = code(5000) + "\ud800 x"
    with pytest.raises(UnencodableText) as caught:
        LineGrid(TOKENIZER).start(prefix, 1024)
    assert caught.value.offset == len(prefix) - 3
