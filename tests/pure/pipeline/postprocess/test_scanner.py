"""Brackets count in code, and in nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.pipeline.postprocess.languages import language_of
from halfline.pipeline.postprocess.scanner import Scanner


def scanned(name: str, text: str) -> Scanner:
    return Scanner(language_of(name)).read(text)


@pytest.mark.parametrize(
    ("name", "text", "due", "inside"),
    [
        ("a.py", "f(a, [b", ")]", None),
        ("a.py", "f('(', \"[\"", ")", None),
        ("a.py", "x = '''(\n", "", "'''"),
        ("a.py", '"""one""" + f(', ")", None),
        ("a.py", "x = '' + (", ")", None),
        ("a.py", "f(g('a'), ['b'], {'c'}) + (", ")", None),
        ("a.py", "f(  # (", ")", "\n"),
        ("a.py", "f(  # (\n", ")", None),
        ("a.py", r"x = '\'(' + [", "]", None),
        ("a.py", "x = 'never closed (\n(", ")", None),
        ("a.ts", "`a {\n`; {", "}", None),
        ("a.ts", "x /* ( ", "", "*/"),
        ("a.ts", "x /* ( */ (", ")", None),
        ("a.rs", "fn f<'a>(x: &'a str", ")", None),
        ("a.rs", "matches!(c, '(' | '[' | ", ")", None),
        ("a.rs", "f('x', '\\\\', '\\'', b'(', '\\u{7d}', '\"'); {", "}", None),
        ("a.rs", "f(['a','(','b'], &'a x) {", "}", None),
        ("a.rs", 'let s = "a\n(";(', ")", None),
        ("a.cpp", "int x[] = {1'000, (", "})", None),
        ("a.cpp", "char c = '(';{", "}", None),
        ("a.yaml", "don't: it's (fine", "", None),
        ("a.yaml", "a: [b, '(', {", "]}", None),
        ("a.yaml", "a: ['b', 'c']", "", None),
        ("a.sql", "VALUES ('a', f('b'))", "", None),
        ("a.lua", "print(f('some text'))", "", None),
        ("a.sql", "SELECT 'it''s (\n' || (", ")", None),
        ("a.md", "1) one (two", "", None),
    ],
)
def test_what_is_open_is_what_code_opened(name: str, text: str, due: str, inside: str | None) -> None:
    scanner = scanned(name, text)
    assert ("".join(scanner.open), scanner.inside) == (due, inside)


def test_closers_of_what_was_open_before_are_counted() -> None:
    assert Scanner(language_of("a.ts")).num_closed("a) + f(b)}, ')'") == 2


@given(
    st.sampled_from(["a.py", "a.ts", "a.rs", "a.go", "a.yaml", "a.sql", "a.md", "a.txt", "a"]),
    st.text("ab \n'\"`()[]{}#/*-:\\1", max_size=40),
)
def test_reading_in_one_go_is_the_same_as_character_by_character(name: str, text: str) -> None:
    whole, single = Scanner(language_of(name)), Scanner(language_of(name))
    assert whole.num_closed(text) == sum(single.push(character) for character in text)
    assert (whole.open, whole.inside) == (single.open, single.inside)
    rest = ")'\"\n]"
    assert whole.num_closed(rest) == single.num_closed(rest)
