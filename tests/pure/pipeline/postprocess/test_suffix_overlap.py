"""What stands behind the cursor is not written a second time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.pipeline.postprocess.suffix_overlap import SuffixOverlap
from halfline.pipeline.postprocess.surroundings import surroundings
from halfline.request import Document


def overlap_with(rest: str, line: str = "") -> SuffixOverlap:
    return SuffixOverlap(surroundings(Document(line, rest, "x.py")))


def shown(rest: str, pieces: list[str], line: str = "") -> tuple[str, bool]:
    overlap = overlap_with(rest, line)
    text = ""
    for piece in pieces:
        text += overlap.push(piece)
        if overlap.stopped:
            return text, True
    text += overlap.finish()
    return text, overlap.stopped


def specified(rest: str, text: str) -> tuple[str, bool]:
    line, newline, _ = text.partition("\n")
    if not rest.strip():
        return text, False
    overlaps = line.rstrip().endswith(rest.strip())
    if overlaps:
        line = line.rstrip().removesuffix(rest.strip())
    if rest[0].isspace() and (overlaps or not newline):
        line = line.rstrip()
    return (line, overlaps) if overlaps or not newline else (text, False)


@pytest.mark.parametrize(
    ("rest", "text", "expected"),
    [
        (")", "a, b)\nnext()\n", "a, b"),
        (")", "f(a), g(b))", "f(a), g(b)"),
        (") {", "a ) {  \nreturn", "a "),
        (" + y", "f(a) + y\nz", "f(a)"),
        ("  # the sum", "sum(a)  # the sum\n", "sum(a)"),
        (" + y", "f(a) ", "f(a)"),
        ("", "a)\nb\n", "a)\nb\n"),
        ("   ", "a)\nb\n", "a)\nb\n"),
        (")", "a,\n  b)\n", "a,\n  b)\n"),
        (")", ")", ""),
        ("])", "1])", "1"),
    ],
)
def test_the_rest_of_the_line_is_cut_where_the_first_line_ends_with_it(
    rest: str, text: str, expected: str
) -> None:
    assert shown(rest, [text])[0] == expected


@pytest.mark.parametrize(
    ("line", "rest", "text", "expected"),
    [
        ("f(", ")", "g(x)", "g(x)"),
        ("f(", ")", "g(x))", "g(x)"),
        ("def f", "ab, c):", "(ab, c):", "("),
        ("f(", ", {", "a, {", "a"),
        ("print('", "')", "(')", "("),
    ],
)
def test_a_bracket_that_the_answer_opened_keeps_its_closer(
    line: str, rest: str, text: str, expected: str
) -> None:
    assert shown(rest, [text], line)[0] == expected


@given(st.text("ab =", max_size=4), st.lists(st.text("ab =\n", max_size=4), max_size=8))
def test_the_pieces_in_which_text_comes_do_not_matter(rest: str, pieces: list[str]) -> None:
    assert shown(rest, pieces) == specified(rest, "".join(pieces))


@given(st.text("ab =", max_size=4), st.lists(st.text("ab =\n", max_size=4), max_size=8))
def test_only_what_may_become_the_overlap_is_held_back(rest: str, pieces: list[str]) -> None:
    overlap = overlap_with(rest)
    read = text = ""
    for piece in pieces:
        read += piece
        text += overlap.push(piece)
        if overlap.stopped:
            return
        held = read[len(text) :]
        assert read.startswith(text)
        assert len(held.strip()) <= len(rest)
