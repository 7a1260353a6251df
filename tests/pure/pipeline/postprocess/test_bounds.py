"""Answers end where the client drew a line: by indentation, or by time once there is a whole line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.pipeline.postprocess.line_time import LineTime
from halfline.pipeline.postprocess.min_indent import MinIndent


def shown(limit: MinIndent | LineTime, *pieces: str) -> str:
    text = ""
    for piece in pieces:
        text += limit.push(piece)
        if limit.stopped:
            return text
    return text + limit.finish()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1", "x = 1"),
        ("x\n    y\n    z", "x\n    y\n    z"),
        ("x\n    y\ndef g():", "x\n    y\n"),
        ("x\n  y", "x\n  "),
        ("x\n\n    y", "x\n\n    y"),
        ("x\r\n\r\n    y\r\n}", "x\r\n\r\n    y\r\n"),
        ("x\n\t\t\t\ty", "x\n\t\t\t\ty"),
        ("\n}", "\n"),
    ],
)
def test_a_line_indented_by_less_ends_the_answer(text, expected) -> None:
    assert shown(MinIndent(4), text) == expected


@given(st.text(alphabet="a \n\t\r}", max_size=30), st.integers(1, 5))
def test_how_the_text_is_cut_into_pieces_changes_nothing(text, num_blanks) -> None:
    whole = shown(MinIndent(num_blanks), text)
    assert shown(MinIndent(num_blanks), *text) == whole
    assert text.startswith(whole)


def test_time_ends_an_answer_that_has_a_line_and_never_one_that_has_none() -> None:
    now = [0.0]

    def late(*pieces: str) -> str:
        limit = LineTime(250, clock=lambda: now[0])
        text = ""
        for piece in pieces:
            text += limit.push(piece)
            if limit.stopped:
                break
            now[0] += 0.2
        return text

    assert late("a", "b", "c", "d") == "abcd"
    assert late("a\n", "b", "c", "d") == "a\nbc"
    assert late("a", "b", "c\n", "d") == "abc\n"
