"""Where a place on the command line is in the text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.cli.cursor import document_at, document_with_mark
from halfline.errors import BadRequest
from halfline.request import Document


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.py"


@pytest.mark.parametrize(
    ("text", "place", "prefix", "suffix"),
    [
        ("ab\ncd", "1:1", "", "ab\ncd"),
        ("ab\ncd", "1:3", "ab", "\ncd"),
        ("ab\ncd", "2:2", "ab\nc", "d"),
        ("ab\n", "2:1", "ab\n", ""),
        ("", "1:1", "", ""),
        ("ab\r\ncd", "1:3", "ab", "\r\ncd"),
        ("é\U0001f600x", "1:3", "é\U0001f600", "x"),
        ("a\u2028b\nc", "2:1", "a\u2028b\n", "c"),
    ],
)
def test_lines_and_columns_count_from_1_in_characters(file, text, place, prefix, suffix) -> None:
    file.write_bytes(text.encode())
    assert document_at(f"{file}:{place}") == Document(prefix, suffix, str(file))


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("0:1", "no line 0"),
        ("3:1", "no line 3"),
        ("1:0", "no column 0"),
        ("1:4", "no column 4"),
        ("1:-1", "FILE:LINE:COL"),
        ("x:1", "FILE:LINE:COL"),
        ("1:²", "FILE:LINE:COL"),
        ("9" * 5000 + ":1", "no line"),
    ],
)
def test_a_place_that_is_not_there_is_said_so(file, place, sentence) -> None:
    file.write_text("ab\ncd")
    with pytest.raises(BadRequest, match=sentence):
        document_at(f"{file}:{place}")


def test_a_column_in_the_middle_of_a_crlf_is_not_there(file) -> None:
    file.write_bytes(b"ab\r\ncd")
    with pytest.raises(BadRequest, match="no column 4"):
        document_at(f"{file}:1:4")


@pytest.mark.parametrize(
    ("content", "sentence"), [(b"\xff", "not UTF-8"), (None, "cannot be read")], ids=["binary", "missing"]
)
def test_a_file_that_holds_no_text_is_said_so(file, content, sentence) -> None:
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadRequest, match=sentence):
        document_at(f"{file}:1:1")


@pytest.mark.parametrize(("text", "times"), [("abc", 0), ("a|b|c", 2)])
def test_the_mark_must_stand_there_exactly_once(text, times) -> None:
    with pytest.raises(BadRequest, match=f"{times} times"):
        document_with_mark(text, "|")
    with pytest.raises(BadRequest, match="empty"):
        document_with_mark(text, "")


@given(prefix=st.text("ab\n é"), suffix=st.text("ab\n é"))
def test_the_mark_splits_the_text_and_is_gone(prefix, suffix) -> None:
    assert document_with_mark(f"{prefix}<CURSOR>{suffix}", "<CURSOR>") == Document(prefix, suffix, None)
