"""A fault is seen where an answer brought it, and not where the file had it before."""

from halfline.quality.comparison.faults import breaks_indentation, breaks_syntax, names_in, repeats_suffix
from halfline.quality.infilling.suites import Task


def task(prefix: str, wanted: str, suffix: str, path: str = "x.py") -> Task:
    return Task(
        id="t",
        problem="p",
        path=path,
        prefix=prefix,
        suffix=suffix,
        wanted=wanted,
        single_line=False,
        checks=None,
    )


CALL = task("def f(a):\n    return g(", "a, 1", ")\n\nprint(f(2))\n")


def test_an_answer_that_leaves_a_bracket_open_breaks_the_syntax() -> None:
    assert breaks_syntax(CALL, "a") is False
    assert breaks_syntax(CALL, "a, (") is True
    assert breaks_syntax(task("fn f() { g(", "1", ") }\n", "x.rs"), "1, (") is True


def test_what_is_broken_without_the_answer_says_nothing_of_it() -> None:
    assert breaks_syntax(task("def (:\n", "x", "\n"), "x") is None
    assert breaks_syntax(task("a", "b", "c", "notes.txt"), "(") is None


def test_a_line_indented_as_nothing_above_it_breaks_pythons_indentation_alone() -> None:
    block = task("if x:\n    a()\n", "    b()\n", "c()\n")
    assert breaks_indentation(block, "    b()\n") is False
    assert breaks_indentation(block, "      b()\n") is True
    assert breaks_indentation(block, "    b(\n") is False  # another fault
    assert breaks_indentation(task("if x {\n", "  b();\n", "}\n", "x.js"), "     b();\n") is None


def test_an_answer_that_ends_with_what_stands_behind_it_repeats_it() -> None:
    assert repeats_suffix(CALL, "a, 1)") is True
    assert repeats_suffix(CALL, "a, 1") is False
    lines = task("a()\n", "b()", "\n\nc()\n")
    assert repeats_suffix(lines, "b()\nc()") is True
    assert repeats_suffix(lines, "b()") is False
    assert repeats_suffix(task("", "x", ""), "x") is None
    assert repeats_suffix(task("g(", "f(1)", ")"), "f(1)") is None  # the true text ends alike


def test_names_are_the_grammars_and_one_whose_head_is_typed_counts() -> None:
    assert names_in(CALL, "abc, 'text', True, d.e") == ["abc", "d", "e"]
    assert names_in(task("val", "ue + 1", "\n"), "ues[k]") == ["values", "k"]
    assert names_in(task("", "", "", "notes.txt"), "some words 12") == ["some", "words"]
