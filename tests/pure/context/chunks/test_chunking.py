"""Chunks hold whole statements and names that occur together, lose no character, and are never too long."""

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from halfline.context.chunks import statements
from halfline.context.chunks.chunking import chunk_by_ner_overlap
from halfline.context.chunks.names import parting_costs
from halfline.context.chunks.statements import Start, statement_starts


def words(text: str) -> int:
    """Tokens that do not add up: a word, and every two characters of what is none; runs across a cut merge anew."""
    count, run = 0, 0
    for character in text:
        if character.isalnum():
            run += 1
            continue
        count += (run > 0) + 1
        run = 0
    return count + (run > 0)


COUNTS: list[Callable[[str], int]] = [words, lambda text: len(text.encode()), lambda text: -(-len(text) // 3)]
CODE = '''\
"""A store."""
import os

LIMIT = 3

# What is kept.
@dataclass
class Store:
    size: int

    def get(self, key):
        if key in self.items:
            return self.items[key]
        else:
            return None

    def put(self, key, value):
        self.items[key] = value


def main():
    """
not_a_statement = 1
    """
    store = Store(
        LIMIT
    )
'''


@settings(deadline=None, max_examples=150)
@given(
    st.text(alphabet=st.sampled_from("ab(){};:#.,\n\n\t  \r\u0301é日'\"_1"), max_size=400),
    st.integers(4, 60),
    st.sampled_from(COUNTS),
    st.sampled_from([None, "a.py", "a.rs", "a.c", "a.txt"]),
)
@example("", 4, words, None)
@example(CODE, 12, words, "store.py")
@example("x" * 500, 4, COUNTS[1], "a.py")
@example("\n" * 300 + "\r\n" * 50, 7, words, "a.py")
def test_no_text_is_lost_and_no_chunk_is_too_long(
    text: str, max_tokens: int, count: Callable[[str], int], path: str | None
) -> None:
    chunks = chunk_by_ner_overlap(text, max_tokens, count_tokens=count, path=path)
    assert "".join(chunks) == text
    assert all(chunks)
    for chunk in chunks:
        assert count(chunk) <= max_tokens or len(chunk) == 1


@settings(deadline=None, max_examples=40)
@given(st.text(max_size=200), st.integers(4, 40))
def test_any_unicode_is_kept(text: str, max_tokens: int) -> None:
    assert "".join(chunk_by_ner_overlap(text, max_tokens, count_tokens=words, path="a.py")) == text


def test_what_fits_is_one_chunk_and_nothing_is_none() -> None:
    assert chunk_by_ner_overlap(CODE, count_tokens=words) == [CODE]
    assert chunk_by_ner_overlap("", count_tokens=words) == []
    with pytest.raises(ValueError, match="max_tokens is 3"):
        chunk_by_ner_overlap(CODE, 3, count_tokens=words)


def first_lines(path: str | None, max_tokens: int, text: str = CODE) -> list[str]:
    chunks = chunk_by_ner_overlap(text, max_tokens, count_tokens=words, path=path)
    return [chunk.lstrip("\n").split("\n", 1)[0] for chunk in chunks]


@pytest.mark.parametrize("path", ["store.py", None])
def test_cuts_are_between_statements_and_comments_stay_with_what_they_are_about(path: str | None) -> None:
    # Without a grammar the margin of a long string looks like a statement.
    text = CODE.replace("not_a_statement", "    not_a_statement") if path is None else CODE
    assert first_lines(path, 150, text) == ['"""A store."""', "# What is kept.", "def main():"]
    assert {"    def put(self, key, value):", "def main():"} <= set(first_lines(path, 80, text))


def test_a_grammar_knows_what_is_no_statement() -> None:
    assert "not_a_statement = 1" not in first_lines("store.py", 25)


def test_without_the_grammars_indentation_is_gone_by(monkeypatch: pytest.MonkeyPatch) -> None:
    known = statement_starts(CODE, "store.py")
    monkeypatch.setattr(statements, "has_grammars", lambda: False)
    plain = statement_starts(CODE, "store.py")
    assert known != plain
    assert plain == statement_starts(CODE, None)


@pytest.mark.parametrize(
    ("path", "text", "lines"),
    [
        ("a.py", "a = 1\nb = (\n  2\n)\nif c:\n  d\nelse:\n  e\n", {1: 0, 2: 3, 4: 0, 5: 1, 6: 1, 7: 2}),
        (None, "a = 1\nb = (\n  2\n)\nif c:\n  d\nelse:\n  e\n", {1: 0, 2: 1, 4: 0, 5: 1, 6: 1, 7: 1}),
        ("a.rs", "#[test]\n/// doc\nfn a() {}\n\nfn b() {\n    c();\n}\n", {4: 0, 5: 2}),
        ("a.go", "package a\n\n// b does\nfunc b() {\n\tc()\n}\n", {2: 0, 4: 2}),
        ("a.unknown", "one\n\n  two\nthree\n", {2: 1, 3: 0}),
    ],
)
def test_where_statements_begin(path: str | None, text: str, lines: dict[int, int]) -> None:
    places = [0]
    for line in text.splitlines(keepends=True):
        places.append(places[-1] + len(line))
    found = {places.index(start.place): start.depth for start in statement_starts(text, path)}
    assert found == lines


def test_a_trailing_comment_does_not_hold_the_next_statement() -> None:
    assert statement_starts("a = 1  # one\nb = 2\n", "a.py") == [Start(13, 0)]


def test_names_that_occur_together_are_kept_together() -> None:
    pairs = "".join(f"alpha{n} = beta{n}()\nuse(alpha{n}, beta{n})\n" for n in range(6))
    for path in ("a.py", None):
        chunks = chunk_by_ner_overlap(pairs, 40, count_tokens=words, path=path)
        assert len(chunks) == 3
        for n in range(6):
            assert sum(f"alpha{n}" in chunk for chunk in chunks) == 1, (path, chunks)


def test_parting_a_pair_costs_its_names_and_one_that_is_everywhere_hardly_anything() -> None:
    costs = parting_costs(["self one", "self one", "self two", "self two", "self"])
    assert costs == pytest.approx([0.0, 1.25, 0.25, 1.25, 0.25])


def test_a_text_of_one_endless_line_takes_time_in_proportion() -> None:
    counted = 0

    def counting(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return words(text)

    text = "word " * 20_000
    chunks = chunk_by_ner_overlap(text, 384, count_tokens=counting)
    assert "".join(chunks) == text
    assert counted < 10 * len(text)
