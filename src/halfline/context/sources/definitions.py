"""What a file defines, and what it imports: names and the lines where they stand.

Read with a syntax tree where there is a grammar, by the beginnings of lines otherwise. Nothing is resolved here: an
import is the names that its statement mentions, in order.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

from halfline.document.syntax_tree import Grammar, grammar_for, has_grammars, parse

if TYPE_CHECKING:
    from tree_sitter import Node

_DEFINES = re.compile(r"definition|declaration|_item$|_spec$|declarator")
_IMPORTS = re.compile(
    r"^(?:import_statement|import_from_statement|import_declaration|use_declaration|preproc_include)$"
)
_NAME = re.compile(r"[^\W\d]\w*")
_IMPORT_WORDS = frozenset("import from as use pub crate self super include static type package java".split())

_DEFINITION_LINE = re.compile(
    r"\s*(?:(?:pub(?:\([^)]*\))?|export|default|async|static|abstract|final|public|private|protected|unsafe)\s+)*"
    r"(?:def|class|fn|func|function|struct|enum|trait|interface|type|module|object)\s+(?:\([^)]*\)\s*)?(?P<name>[^\W\d]\w*)"
)
_IMPORT_LINE = re.compile(r"\s*(?:import|from|use|require|include|#include)\b.*")

_WITHOUT = ("expression_statement", "parameters", "parameter_list", "string", "comment")

_FUNCTIONS = frozenset(
    "function_definition function_declaration function_item method_definition method_declaration"
    " constructor_declaration generator_function_declaration function_signature_item".split()
)

MAX_LINES = 20
"""Of a definition; a longer one is shown in its beginning."""


@dataclass(frozen=True, slots=True)
class Definition:
    """Lines [first, stop) of its file."""

    name: str
    first: int
    stop: int


def lines_of(text: str) -> list[str]:
    """With their ends, which are line feeds alone, as grammars and editors count: a form feed is within a line."""
    return list(StringIO(text, newline="\n"))


def definitions(text: str, path: str) -> list[Definition]:
    """In the order of the file, those in classes too, those in functions not."""
    tree = _tree(text, path)
    if tree is None:
        return list(_definitions_by_line(text))
    found = []
    for node in _walk(tree):
        if _DEFINES.search(node.type):
            name = _name(node)
            if name is not None:
                first, stop = node.start_point[0], node.end_point[0] + 1
                found.append(Definition(name, first, min(stop, first + MAX_LINES)))
    if tree.has_error:  # around an error definitions are lost
        known = {each.name for each in found}
        found += [each for each in _definitions_by_line(text) if each.name not in known]
    return sorted(found, key=lambda each: each.first)


def imports(text: str, path: str) -> list[tuple[str, ...]]:
    """The names in each statement that imports, as `("halfline", "context", "layout", "Layout")`."""
    tree = _tree(text, path)
    if tree is None or tree.has_error:
        statements = [line for line in lines_of(text) if _IMPORT_LINE.match(line)]
    else:
        nodes = _walk(tree, into=lambda node: not _IMPORTS.match(node.type))
        statements = [
            (node.text or b"").decode(errors="replace") for node in nodes if _IMPORTS.match(node.type)
        ]
    found = (tuple(name for name in _NAME.findall(each) if name not in _IMPORT_WORDS) for each in statements)
    return [names for names in found if names]


def _tree(text: str, path: str) -> "Node | None":
    grammar: Grammar | None = grammar_for(path) if has_grammars() else None
    tree = None if grammar is None else parse(text.encode(errors="replace"), grammar)
    return None if tree is None else tree.root_node


def _walk(root: "Node", into: "Callable[[Node], bool]" = lambda node: True) -> Iterator["Node"]:
    """Every named node that may define something for others, parents first: not what is inside functions."""
    todo = [root]
    while todo:
        node = todo.pop()
        yield node
        if node.type in _FUNCTIONS or node.type.endswith(_WITHOUT) or not into(node):
            continue
        todo.extend(reversed(node.named_children))


def _name(node: "Node") -> str | None:
    named = node.child_by_field_name("name")
    while named is None and (inner := node.child_by_field_name("declarator")) is not None:
        node = inner
        named = inner.child_by_field_name("name") or (inner if inner.type.endswith("identifier") else None)
    if named is None or named.text is None:
        return None
    text = named.text.decode(errors="replace")
    return text if _NAME.fullmatch(text) else None


def _definitions_by_line(text: str) -> Iterator[Definition]:
    lines = lines_of(text)
    for first, line in enumerate(lines):
        found = _DEFINITION_LINE.match(line)
        if found is None:
            continue
        depth = len(line) - len(line.lstrip())
        stop = first + 1
        while stop < min(len(lines), first + MAX_LINES):
            below = lines[stop]
            if (
                below.strip()
                and len(below) - len(below.lstrip()) <= depth
                and below.strip() not in ("{", "}", "end")
            ):
                break
            stop += 1
        yield Definition(found["name"], first, stop)
