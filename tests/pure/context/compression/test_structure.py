import pytest

from halfline.context.compression import structure
from halfline.context.compression.passes import Budget, lined
from halfline.context.compression.structure import Bodies, Comments
from halfline.request import Part

PYTHON = '''\
class Basket:
    # what is in it
    items: list[str]

    def add(self, item: str) -> None:
        if item:
            self.items.append(item)

    def size(self) -> int: return len(self.items)


@cached
def load(path):
    """Read it."""

    return path
'''
PYTHON_SIGNATURES = """\
class Basket:
    # what is in it
    items: list[str]

    def add(self, item: str) -> None:
        ...

    def size(self) -> int: return len(self.items)


@cached
def load(path):
    ...
"""
RUST = """\
/// A point.
pub struct Point { x: f64 }

impl Point {
    // Its length.
    pub fn norm(&self) -> f64 {
        let square = self.x * self.x;
        square.sqrt()
    }
    fn zero() -> Point { Point { x: 0.0 } }
}
"""
JAVA = "class A {\n  int twice(int x) {\n    return 2 * x;\n  }\n}\n"
GO = "package a\n\nfunc Twice(x int) int {\n\treturn 2 * x\n}\n"
TYPESCRIPT = "export function twice(x: number): number {\n  return 2 * x;\n}\nconst f = (x: number) => {\n  g(x);\n};\n"


@pytest.mark.parametrize("knows_path", [True, False])
def test_of_python_functions_signatures_are_left(knows_path: bool) -> None:
    part = lined(Part(PYTHON, "basket.py" if knows_path else None))
    assert Bodies().shrink([part], Budget(0)).parts[0].text == PYTHON_SIGNATURES


@pytest.mark.parametrize(
    ("text", "path", "gone"),
    [
        (RUST, "point.rs", ["        let square = self.x * self.x;\n", "        square.sqrt()\n"]),
        (JAVA, "A.java", ["    return 2 * x;\n"]),
        (GO, "a.go", ["\treturn 2 * x\n"]),
        (TYPESCRIPT, "a.ts", ["  return 2 * x;\n", "  g(x);\n"]),
    ],
)
def test_of_functions_in_braces_only_what_is_between_them_goes(text: str, path: str, gone: list[str]) -> None:
    left = Bodies().shrink([lined(Part(text, path))], Budget(0)).parts[0].text
    for line in gone:
        text = text.replace(line, "")
    assert left == text


def test_lines_that_only_comment_go_and_those_in_strings_stay() -> None:
    text = 'x = """\n# no comment\n"""\n# a comment\ny = 1  # stays\n\n'
    part = lined(Part(text, "a.py"))
    shrunk = Comments().shrink([part], Budget(0))
    assert shrunk.parts[0].text == 'x = """\n# no comment\n"""\ny = 1  # stays\n'
    assert shrunk.reasons() == {"comment": 2}


def test_a_block_of_comment_goes_whole() -> None:
    text = "/*\n many\n lines\n*/\nint a;\n/* here */ int b;\n"
    assert (
        Comments().shrink([lined(Part(text, "a.c"))], Budget(0)).parts[0].text
        == "int a;\n/* here */ int b;\n"
    )


def test_without_grammars_the_beginnings_of_lines_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure, "has_grammars", lambda: False)
    left = Comments().shrink([lined(Part(RUST, "point.rs"))], Budget(0)).parts[0]
    assert "//" not in left.text
    left = Bodies().shrink([lined(Part(RUST, "point.rs"))], Budget(0)).parts[0]
    assert "square" not in left.text and "pub fn norm(&self) -> f64 {\n    }\n" in left.text


@pytest.mark.parametrize(
    "text", ["", "def", "def f(:\n\tx\n", "}}}{{{\n", "class A:\n  def f(self):\n", "\x00\ud800\n"]
)
def test_broken_code_breaks_nothing(text: str) -> None:
    part = lined(Part(text, "a.py"))
    assert len(Bodies().shrink([part], Budget(0)).parts) == 1
    assert len(Comments().shrink([part], Budget(0)).parts) == 1
