"""How far an answer may go is decided by what stands around the cursor."""

import pytest

from halfline.pipeline.postprocess.extent import extent
from halfline.pipeline.postprocess.surroundings import level, surroundings
from halfline.request import Document


@pytest.mark.parametrize(
    ("text", "goes_to", "indent"),
    [
        ("foo(█, b)", "line", 0),
        ("foo(█)", "statement", 0),
        ("foo(a█)", "line", 0),
        ("    if x: {█}", "statement", 4),
        ("    return x + █\n", "statement", 4),
        ("if x:█\n", "statement", 0),
        ("def f():\n    a\n    █\n\nb\n", "block", 4),
        ("def f():\n    a\n    █\n    b\n", "statement", 4),
        ("def f():\n    a\n    █", "block", 4),
        ("    █  # noqa", "line", 4),
        ("█", "block", 0),
        ("\t█\n\tx", "statement", 4),
    ],
)
def test_an_answer_goes_to_the_end_of_its_line_statement_or_block(
    text: str, goes_to: str, indent: int
) -> None:
    prefix, suffix = text.split("█")
    found = extent(surroundings(Document(prefix, suffix, "a.py")))
    assert (found.goes_to_end_of, found.indent) == (goes_to, indent)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n\tb\n\t\tc█", "\t"),
        ("a\n  b\n    c\n  d█", "  "),
        ("a\n    b\n        c█", "    "),
        ("a\n    b\n\tc█", None),
        ("a\nb█", None),
        ("a█\n   b", "   "),
    ],
)
def test_the_indentation_is_what_the_lines_around_agree_on(text: str, expected: str | None) -> None:
    prefix, suffix = text.split("█")
    assert level(surroundings(Document(prefix, suffix))) == expected


@pytest.mark.parametrize(
    ("prefix", "suffix", "newline"),
    [
        ("a\r\nb", "", "\r\n"),
        ("a\r\nb\nc", "\r\n", "\n"),
        ("a", "\r\nb", "\r\n"),
        ("a", "\nb", "\n"),
        ("a", "", None),
    ],
)
def test_the_nearest_line_end_is_the_documents(prefix: str, suffix: str, newline: str | None) -> None:
    around = surroundings(Document(prefix, suffix))
    assert around.newline == newline
    assert "\r" not in around.rest + around.above + around.below


@pytest.mark.parametrize(
    ("prefix", "inside"),
    [
        ('x = """a\n', '"""'),
        ('x = """a"""\n', None),
        ("x = '''it is \"\"\" here\n", "'''"),
        ("'''a\"\"\"'''\n", None),
    ],
)
def test_a_line_may_begin_in_a_string(prefix: str, inside: str | None) -> None:
    assert surroundings(Document(prefix, "", "a.py")).inside == inside


def test_what_is_known_of_a_large_document_is_small() -> None:
    around = surroundings(Document("x = 1\n" * 500_000 + "y" * 100_000, "z" * 100_000 + "\nw" * 500_000))
    sizes = [len(around.line), len(around.rest), len(around.above), len(around.below)]
    assert max(sizes) <= 8192
