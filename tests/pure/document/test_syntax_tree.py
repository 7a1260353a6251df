"""Which grammar reads which file, and that each of them reads its language."""

import subprocess
import sys

import pytest

from halfline.document.syntax_tree import (
    CPP,
    GRAMMARS,
    MAX_BYTES,
    PYTHON,
    TSX,
    Grammar,
    grammar_for,
    has_grammars,
    parse,
)

SAMPLES = {
    "python": "def f(x):\n    return x\n",
    "javascript": "const f = (x) => x;\n",
    "typescript": "function f(x: number): number { return x }\n",
    "tsx": "const f = () => <div>é</div>;\n",
    "rust": "fn f(x: u8) -> u8 { x }\n",
    "go": "package p\nfunc f(x int) int { return x }\n",
    "java": "class A { int f(int x) { return x; } }\n",
    "c": "int f(int x) { return x; }\n",
    "cpp": "template <class T> T f(T x) { return x; }\n",
}


@pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda each: each.name)
def test_every_grammar_reads_its_own_language_and_sees_what_is_broken(grammar: Grammar) -> None:
    whole = parse(SAMPLES[grammar.name].encode(), grammar)
    broken = parse((SAMPLES[grammar.name] + "((").encode(), grammar)
    assert whole is not None and not whole.root_node.has_error
    assert broken is not None and broken.root_node.has_error


def test_a_file_is_read_by_its_suffix_whatever_its_folders_are_called() -> None:
    assert grammar_for("src/a.py") is PYTHON
    assert grammar_for("src\\A.TSX") is TSX
    assert grammar_for("x.py/include/a.h") is CPP
    assert grammar_for("Makefile") is None
    assert grammar_for(".py") is None  # a name, not a suffix


def test_a_text_beyond_the_bound_has_no_tree() -> None:
    assert parse(b"#" * MAX_BYTES, PYTHON) is not None
    assert parse(b"#" * (MAX_BYTES + 1), PYTHON) is None


def test_an_edited_tree_equals_a_fresh_one() -> None:
    before, after = b"x = 1\ny = 2\n", b"x = 123\ny = 2\n"
    tree = parse(before, PYTHON)
    assert tree is not None
    tree.edit(
        start_byte=5,
        old_end_byte=5,
        new_end_byte=7,
        start_point=(0, 5),
        old_end_point=(0, 5),
        new_end_point=(0, 7),
    )
    edited, fresh = parse(after, PYTHON, tree), parse(after, PYTHON)
    assert edited is not None and fresh is not None
    assert str(edited.root_node) == str(fresh.root_node)


def test_ten_thousand_open_brackets_have_a_tree() -> None:
    tree = parse(b"(" * 10_000, PYTHON)
    assert tree is not None and tree.root_node.has_error


def test_the_extra_is_named_when_it_is_missing() -> None:
    assert has_grammars()
    asked = (
        "import sys; sys.modules['tree_sitter'] = None\n"
        "from halfline.document.syntax_tree import PYTHON, parse\n"
        "from halfline.errors import MissingExtra\n"
        "try: parse(b'', PYTHON)\n"
        "except MissingExtra as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert ".[syntax]" in said.stdout
