"""New lines begin and end as the document's do."""

import pytest

from halfline.pipeline.postprocess.indentation import Indentation
from halfline.pipeline.postprocess.newlines import Newlines
from halfline.pipeline.postprocess.surroundings import surroundings
from halfline.request import Document
from halfline.sampling.written import Written


def indented(prefix: str, text: str, name: str = "a.go") -> str:
    rewrite = Indentation(surroundings(Document(prefix, "", name)))
    return "".join(rewrite.push(character) for character in text) + rewrite.finish()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{\n        b\n    }", "{\n\t\tb\n\t}"),
        ("{\n\t\tb", "{\n\t\tb"),
        ("f(\n\t\t   x", "f(\n\t\t   x"),
        ("a\n      b", "a\n\t  b"),
        ("`\n    raw`\n    c", "`\n    raw`\n\tc"),
        ("a    b", "a    b"),
    ],
)
def test_spaces_become_tabs_in_a_document_of_tabs(text: str, expected: str) -> None:
    assert indented("func f() {\n\ta\n\t", text) == expected


def test_tabs_become_spaces_in_a_document_of_spaces() -> None:
    assert indented("if a {\n  b\n  ", "c {\n\t\td\n\t}") == "c {\n    d\n  }"


def test_a_document_that_shows_no_indentation_leaves_the_answers() -> None:
    assert indented("a ", "{\n\tb\n    c") == "{\n\tb\n    c"


@pytest.mark.parametrize(
    ("newline", "text", "expected"),
    [
        ("\r\n", "a\nb\r\nc\rd", "a\r\nb\r\nc\rd"),
        ("\n", "a\nb\r\nc\rd", "a\nb\nc\rd"),
        ("\n", "a\r", "a\r"),
    ],
)
def test_line_ends_become_the_documents(newline: str, text: str, expected: str) -> None:
    for pieces in ([text], list(text)):
        rewrite = Newlines(newline)
        assert "".join(map(rewrite.push, pieces)) + rewrite.finish() == expected


def test_places_follow_what_was_written_before_them() -> None:
    written = Written([Newlines("\r\n")])
    text = written.push("a") + written.push("\nb") + written.push("c\n") + written.finish()
    assert text == "a\r\nbc\r\n"
    assert [written.place(place) for place in range(6)] == [0, 1, 3, 4, 5, 7]


def test_without_rewrites_everything_stays_where_it_is() -> None:
    written = Written([])
    assert written.push("a\r\n") + written.finish() == "a\r\n"
    assert written.place(2) == 2
