"""Functions that differ in their variables' names alone read the same, and no others."""

import pytest

from halfline.cache.guessing import Cursor
from halfline.cache.memory import MemoryTier
from halfline.cache.scope import Scope, scope_at
from halfline.cache.store import Store
from halfline.cache.syntax import SyntaxTier
from halfline.document.syntax_tree import grammar_for

# By file: a function up to the cursor, the same with other names, what comes there and what should be guessed.
RENAMED = {
    "a.py": (
        "def total(xs):\n    s = 0\n    for x in xs:\n        s += ",
        "def count(ys):\n    n = 0\n    for y in ys:\n        n += ",
        "x.size * len(xs)",
        "y.size * len(ys)",
    ),
    "a.js": (
        "function add(a, b = 1) {\n  const c = a + b;\n  return ",
        "function sum(x, y = 1) {\n  const z = x + y;\n  return ",
        "c.a(a)",
        "z.a(x)",
    ),
    "a.ts": (
        "function add(a: number, b: number) {\n  const [c] = pair(a, b);\n  return ",
        "function sum(x: number, y: number) {\n  const [z] = pair(x, y);\n  return ",
        "b - c",
        "y - z",
    ),
    "a.rs": (
        "fn add(a: i32, b: i32) -> i32 {\n    let mut c = a + b;\n    c += ",
        "fn sum(x: i32, y: i32) -> i32 {\n    let mut z = x + y;\n    z += ",
        "a.pow(b)",
        "x.pow(y)",
    ),
    "a.go": (
        "func add(a int, b int) int {\n\tc := a + b\n\treturn ",
        "func sum(x int, y int) int {\n\tz := x + y\n\treturn ",
        "c * a",
        "z * x",
    ),
    "A.java": (
        "class A { int add(int a, int b) {\n  int c = a + b;\n  return ",
        "class A { int sum(int x, int y) {\n  int z = x + y;\n  return ",
        "a.b(b)",
        "x.b(y)",
    ),
    "a.c": (
        "int add(int a, int *b) {\n  int c = a + *b;\n  return ",
        "int sum(int x, int *y) {\n  int z = x + *y;\n  return ",
        "c;",
        "z;",
    ),
    "a.cpp": (
        "int add(int a, int& b) {\n  auto c = a + b;\n  return ",
        "int sum(int x, int& y) {\n  auto z = x + y;\n  return ",
        "std::max(a, c)",
        "std::max(x, z)",
    ),
}


def scope(path: str, before: str, behind: str = "") -> Scope | None:
    grammar = grammar_for(path)
    assert grammar is not None
    return scope_at(before, behind, grammar)


@pytest.mark.parametrize("path", RENAMED)
def test_a_renamed_function_is_found_and_the_answer_is_renamed_back(path: str) -> None:
    first, second, came, expected = RENAMED[path]
    tier = SyntaxTier(Store(MemoryTier(1 << 20, 1e9)))
    look = tier.look(Cursor("local", first, "", path))
    assert look is not None and look.guess() is None
    look.learn(came)
    again = tier.look(Cursor("local", first, "", path))
    renamed = tier.look(Cursor("local", second, "", "elsewhere/" + path))
    assert again is not None and renamed is not None
    assert (again.guess(), renamed.guess()) == (came, expected)
    other = tier.look(Cursor("another tenant", second, "", path))
    assert other is not None and other.guess() is None


BASE = "def f(a, b):\n    if a < b:\n        return g(a, b) + "
NEARLY = {
    "another operator": "def f(a, b):\n    if a <= b:\n        return g(a, b) + ",
    "negated": "def f(a, b):\n    if not a < b:\n        return g(a, b) + ",
    "swapped arguments": "def f(a, b):\n    if a < b:\n        return g(b, a) + ",
    "swapped parameters": "def f(b, a):\n    if a < b:\n        return g(a, b) + ",
    "another indentation": "def f(a, b):\n  if a < b:\n    return g(a, b) + ",
    "another function called": "def f(a, b):\n    if a < b:\n        return h(a, b) + ",
    "another attribute": "def f(a, b):\n    if a.x < b:\n        return g(a, b) + ",
    "one name for two": "def f(a, b):\n    if a < a:\n        return g(a, b) + ",
    "another string": "def f(a, b='x'):\n    if a < b:\n        return g(a, b) + ",
    "another number of spaces behind a line": "def f(a, b):\n    if a < b:\n        return g(a, b) - ",
}


@pytest.mark.parametrize("text", NEARLY.values(), ids=NEARLY)
def test_code_that_means_something_else_reads_otherwise(text: str) -> None:
    base, other = scope("a.py", BASE), scope("a.py", text)
    assert base is not None and other is not None
    assert base.shape != other.shape


def test_the_same_text_in_another_language_is_another_guess() -> None:
    text = "int add(int a, int b) {\n  return "
    tier = SyntaxTier(Store(MemoryTier(1 << 20, 1e9)))
    look = tier.look(Cursor("local", text, "", "a.c"))
    other = tier.look(Cursor("local", text, "", "a.cpp"))
    assert look is not None and other is not None
    look.learn("a")
    assert (look.guess(), other.guess()) == ("a", None)


@pytest.mark.parametrize(
    "before",
    [
        "",
        "x = ",
        "def f(a:\n    if )",
        "def f(a):\n    # ",
        'def f(a):\n    x = "abc',
        "def f(a):\n    x = = ",
        "]" * 5000,
    ],
    ids=["nothing", "no function", "broken", "comment", "string", "two operators", "brackets"],
)
def test_where_there_is_no_function_to_read_nothing_is_guessed(before: str) -> None:
    assert scope("a.py", before) is None


def test_a_name_in_a_string_or_of_an_attribute_is_not_renamed() -> None:
    first, second = scope("a.py", "def f(abc):\n    "), scope("a.py", "def f(xyz):\n    ")
    assert first is not None and second is not None
    pieces = first.generalised('print("abc", abc, o.abc, g(abc=abc))')
    assert pieces is not None
    assert second.specialised(pieces) == 'print("abc", xyz, o.abc, g(abc=xyz))'


def test_a_guess_whose_names_would_be_read_as_something_else_is_dropped() -> None:
    here = scope("a.py", "def f(abc):\n    ")
    assert here is not None
    assert here.specialised(['"', 0, '"']) is None, "it would stand in a string"
    assert here.specialised([7]) is None, "there is no such name"


def test_a_name_from_outside_is_not_taken_for_a_variable_of_the_function_it_comes_to() -> None:
    first = scope("a.py", "def f(a):\n    b = a\n    return ")
    second = scope("a.py", "def g(y):\n    z = y\n    return ")
    assert first is not None and second is not None and first.shape == second.shape
    pieces = first.generalised("y + a")
    assert pieces is not None
    assert (first.specialised(pieces), second.specialised(pieces)) == ("y + a", None)
    assert second.specialised(first.generalised("o.y + a") or []) == "o.y + y", "an attribute is no variable"


@pytest.mark.parametrize(("before", "behind"), [("", "\n# \ud800"), ("# \ud800\n", "\n")])
def test_half_a_character_near_the_cursor_is_no_code(before: str, behind: str) -> None:
    assert scope("a.py", before + "def f(a):\n    return ", behind) is None


def test_the_rest_of_a_function_behind_the_cursor_counts() -> None:
    one = scope("a.py", "def f(a):\n    b = ", "\n    return b\n")
    other = scope("a.py", "def f(a):\n    b = ", "\n    return a\n")
    assert one is not None and other is not None and one.shape != other.shape


def test_a_word_under_the_cursor_is_taken_as_it_stands() -> None:
    one, other = scope("a.py", "def f(aa):\n    b = a"), scope("a.py", "def f(xx):\n    b = x")
    assert one is not None and other is not None and one.shape != other.shape
