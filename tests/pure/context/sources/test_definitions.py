import pytest

from halfline.context.sources import definitions as module
from halfline.context.sources.definitions import Definition, definitions, imports

SOURCES = {
    "a.py": (
        "import os.path\nfrom shop.basket import Basket as B\n\n"
        "class Till:\n    def add(self, item):\n        return item\n",
        [("Till", 3), ("add", 4)],
        [("os", "path"), ("shop", "basket", "Basket", "B")],
    ),
    "a.ts": (
        'import { Basket } from "./shop/basket";\n\n'
        "export interface Till { a: number }\nexport function add(x: number) {\n}\n",
        [("Till", 2), ("add", 3)],
        [("Basket", "shop", "basket")],
    ),
    "a.js": ('import x from "./x.js";\nclass A {\n  m() {}\n}\n', [("A", 1), ("m", 2)], [("x", "x", "js")]),
    "a.rs": (
        "use crate::shop::Basket;\npub struct Till;\nimpl Till {\n    fn add(&self) {}\n}\n",
        [("Till", 1), ("add", 3)],
        [("shop", "Basket")],
    ),
    "a.go": (
        'package a\n\nimport "shop/basket"\n\ntype Till struct{}\n\nfunc (t Till) Add() {}\n',
        [("Till", 4), ("Add", 6)],
        [("shop", "basket")],
    ),
    "A.java": (
        "import shop.Basket;\nclass Till {\n  int add(int x) { return x; }\n}\n",
        [("Till", 1), ("add", 2)],
        [("shop", "Basket")],
    ),
}


@pytest.mark.parametrize("path", SOURCES)
def test_definitions_and_imports_of_six_languages(path: str) -> None:
    text, defined, imported = SOURCES[path]
    assert [(each.name, each.first) for each in definitions(text, path)] == defined
    assert imports(text, path) == imported


@pytest.mark.parametrize("path", SOURCES)
def test_without_grammars_the_beginnings_of_lines_tell_most(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "has_grammars", lambda: False)
    text, defined, imported = SOURCES[path]
    found = {each.name for each in definitions(text, path)}
    assert defined[0][0] in found and found <= {name for name, _ in defined}
    assert imports(text, path)[0] == imported[0]


def test_a_definition_has_its_lines_and_a_long_one_its_beginning() -> None:
    text = "def f():\n    return 1\n\n" + "def g():\n" + "    x\n" * 100
    assert definitions(text, "a.py") == [Definition("f", 0, 2), Definition("g", 3, 23)]
    assert definitions(text, "a.unknown") == [Definition("f", 0, 3), Definition("g", 3, 23)]


def test_of_a_broken_file_what_its_lines_say_is_added() -> None:
    text = "import shop\ndef f():\n    pass\n        )\n    (\nclass A:\n  ]\n"
    assert {each.name for each in definitions(text, "a.py")} == {"f", "A"}
    assert imports(text, "a.py") == [("shop",)]


@pytest.mark.parametrize("text", ["", "def (:", "class", "\x00\ud800", "import", "from . import *\n"])
def test_broken_code_breaks_nothing(text: str) -> None:
    for path in ("a.py", "a.rs", "a.unknown"):
        definitions(text, path)
        imports(text, path)
