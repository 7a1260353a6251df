"""The function around a cursor, written so that functions which differ in the names of their variables alone read the
same: its shape, and what each variable is called here.

    def total(xs):                    def ⓪(①):
        s = 0                             ② = 0
        for x in xs:                      for ③ in ①:
            s += ▮                            ② += ▮          ⓪ total  ① xs  ② s  ③ x

Names that are not bound in the function stay: they mean something outside of it. So do comments' absence, strings,
and the column in which each line begins. Code that cannot be read as whole has no scope here: a cursor in the middle of
a statement is read with a name in its place, and with what closes the brackets that are open.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from halfline.cache.bindings import NAME, SCOPES, is_bound, is_variable
from halfline.document.syntax_tree import Grammar, parse

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_BEFORE, _MAX_BEHIND = 3072, 1024  # characters: parsed for every keystroke, so about a millisecond
_HERE = "halfline_here"
_WORD = re.compile(r"[^\W\d]\w*")
_HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")
_CLOSERS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Scope:
    """`shape` is the same for all functions that differ in their variables' names alone; `names` are those here, in the
    order in which they come. `before` and `behind` are the text that was read.
    """

    grammar: Grammar
    shape: bytes
    names: Sequence[str]
    before: str
    behind: str

    def generalised(self, text: str) -> list[str | int] | None:
        """Text at the cursor as pieces, a variable's name as its number; None where it cannot be read."""
        number_of = {name: number for number, name in enumerate(self.names)}
        pieces: list[str | int] = []
        done = 0
        words = self._variables(text, number_of)
        if words is None:
            return None
        for start, stop in words:
            pieces += [text[done:start], number_of[text[start:stop]]]
            done = stop
        return [*pieces, text[done:]]

    def specialised(self, pieces: Sequence[str | int]) -> str | None:
        """The same with the names of this scope; None where a name would no longer be read as that, or one that means
        something from outside would be read as a variable of this scope.
        """
        text = ""
        places: list[tuple[int, int]] = []
        for piece in pieces:
            if isinstance(piece, int):
                if piece >= len(self.names):
                    return None
                places.append((len(text), len(text) + len(self.names[piece])))
            text += self.names[piece] if isinstance(piece, int) else piece
        found = self._variables(text, dict.fromkeys(self.names, 0))
        return text if found == places else None

    def _variables(self, text: str, names: Mapping[str, int]) -> list[tuple[int, int]] | None:
        """Where in the text, put at the cursor, those names stand for variables; None where nothing can be read."""
        words = [match.span() for match in _WORD.finditer(text) if match.group() in names]
        if not words:
            return []
        head = len(self.before.encode())
        tree = parse((self.before + text + self.behind).encode(), self.grammar)
        if tree is None:
            return None
        found = []
        for start, stop in words:
            place = head + len(text[:start].encode())
            leaf = tree.root_node.descendant_for_byte_range(place, place)
            if leaf is not None and is_variable(leaf) and leaf.start_byte == place:
                found.append((start, stop))
        return found


def scope_at(prefix: str, suffix: str, grammar: Grammar) -> Scope | None:
    """The function around the cursor between the two; None: in none, in a comment or a string, or in code that cannot
    be read. Raises MissingExtra.
    """
    before = _from_line_start(prefix[-_MAX_BEFORE:], whole=len(prefix) <= _MAX_BEFORE)
    behind = suffix[:_MAX_BEHIND]
    if _HALF_A_CHARACTER.search(before + behind):
        return None
    in_word = bool(before[-1:].isidentifier() or before[-1:].isdigit()) or behind[:1].isidentifier()
    here = "" if in_word else _HERE
    cursor = len(before.encode())
    for filling in _fillings(before, here, behind, grammar):
        tree = parse((before + filling[0] + behind + filling[1]).encode(), grammar)
        function = None if tree is None else _function_at(tree.root_node, cursor)
        if function is not None and not function.has_error:
            shape, names = _read(function, cursor, len(here))
            return None if shape is None else Scope(grammar, shape, names, before, behind)
    return None


def _fillings(before: str, here: str, behind: str, grammar: Grammar) -> Iterator[tuple[str, str]]:
    """What may stand at the cursor, and behind everything, for the code to be whole."""
    yield here, ""
    tree = parse((before + here + behind).encode(), grammar)
    if tree is None:
        return
    open_brackets: list[str] = []
    for leaf in _leaves(tree.root_node):
        if leaf.is_missing:  # the parser's own idea of what closes them
            continue
        if leaf.type in _CLOSERS:
            open_brackets.append(_CLOSERS[leaf.type])
        elif open_brackets and leaf.type == open_brackets[-1]:
            open_brackets.pop()
    closers = "".join(reversed(open_brackets))
    if closers:
        yield here, closers
    yield here + ";", closers


def _from_line_start(text: str, *, whole: bool) -> str:
    return text if whole else text[text.find("\n") + 1 :]


def _function_at(root: "Node", cursor: int) -> "Node | None":
    node = root.descendant_for_byte_range(max(0, cursor - 1), cursor)
    while node is not None and node.type not in SCOPES:
        node = node.parent
    return node


def _read(function: "Node", cursor: int, num_here: int) -> tuple[bytes | None, Sequence[str]]:
    """The shape, None where the cursor stands in no code, and the names."""
    leaves = list(_leaves(function))
    bound = {_text(leaf) for leaf in leaves if leaf.type == NAME and is_bound(leaf)}
    numbers: dict[str, int] = {}
    shape: list[str] = []
    line = -1
    for leaf in leaves:
        at_cursor = leaf.start_byte <= cursor <= leaf.end_byte
        if leaf.type.endswith("comment") or leaf.type == "string_content":
            if at_cursor and leaf.start_byte < cursor:
                return None, ()
            if leaf.type != "string_content":
                continue
        if leaf.start_point.row != line:
            line = leaf.start_point.row
            shape.append(f"\n{leaf.start_point.column}")
        text = _text(leaf)
        if num_here and leaf.start_byte == cursor and leaf.type == NAME:
            shape.append("\x01cursor")
            continue
        if text in bound and is_variable(leaf) and not leaf.start_byte < cursor < leaf.end_byte:
            shape.append(f"\x02{numbers.setdefault(text, len(numbers))}")
        else:
            shape.append(text)
        if not num_here and leaf.type == NAME and at_cursor:
            shape.append(f"\x01{cursor - leaf.start_byte if leaf.end_byte != cursor else 'end'}")
    return "\x00".join(shape).encode(), tuple(numbers)


def _text(leaf: "Node") -> str:
    return (leaf.text or b"").decode(errors="replace")


def _leaves(node: "Node") -> Iterator["Node"]:
    cursor = node.walk()
    while True:
        if not cursor.goto_first_child():
            if cursor.node is not None:
                yield cursor.node
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return
