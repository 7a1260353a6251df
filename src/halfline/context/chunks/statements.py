"""Where statements begin in a text, and how deep within others: by its syntax tree, else by its indentation.

A place is always that of a line's first character, so that indentation stays with what it indents. What belongs
together though it takes several lines (a comment and what it is about, a bracket that closes) is no place to begin.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from halfline.document.syntax_tree import grammar_for, has_grammars, parse

if TYPE_CHECKING:
    from tree_sitter import Node

_LINE = re.compile(r"(?m)^([ \t]*)(?=\S)([^\n]*)")
_CLOSES = re.compile(r"[)\]}]|(?:end|fi|done|esac)\b")
_GOES_ON = re.compile(r"(?:else|elif|elsif|except|catch|finally|case|default|rescue|ensure)\b")
_BELONGS_BELOW = re.compile(r"(?:[#@]|//|/\*|\*|--|;;)")
_HEADS = frozenset(("comment", "line_comment", "block_comment", "attribute_item", "decorator"))
_TAB = 4


@dataclass(frozen=True, slots=True)
class Start:
    """A statement begins at the character `place`; `depth` 0: within no other."""

    place: int
    depth: int


def statement_starts(text: str, path: str | None = None) -> list[Start]:
    """In their order; never at the text's beginning. `path` says which grammar reads it, where the extra `syntax` is
    there.
    """
    grammar = None if path is None or not has_grammars() else grammar_for(path)
    tree = None if grammar is None else parse(text.encode(errors="replace"), grammar)
    starts = _by_indentation(text) if tree is None else _by_syntax(text, tree.root_node)
    return [start for start in starts if start.place > 0]


def _by_indentation(text: str) -> Iterator[Start]:
    indents: list[int] = []
    head_ends: int | None = None  # a line that belongs to the one below it ends there
    for line in _LINE.finditer(text):
        indent = len(line[1].expandtabs(_TAB))
        while indents and indents[-1] > indent:
            indents.pop()
        if not indents or indents[-1] < indent:
            indents.append(indent)
        glued = head_ends == line.start()
        head_ends = line.end() + 1 if _BELONGS_BELOW.match(line[2]) else None
        if not glued and not _CLOSES.match(line[2]):
            yield Start(line.start(), len(indents) - 1 + (_GOES_ON.match(line[2]) is not None))


def _by_syntax(text: str, root: "Node") -> Iterator[Start]:
    """Nodes that begin a line, of those at one place the outermost."""
    line_starts = [0, *(found.end() for found in re.finditer("\n", text))]
    depths: dict[int, int] = {}  # by row
    stack: list[tuple[Node, int]] = [(root, -1)]
    while stack:
        node, depth = stack.pop()
        head_row: int | None = None  # where what belongs to the next node ends
        for child in node.named_children:
            row = child.start_point.row
            begins_line = _indent(text, line_starts[row]) == child.start_point.column
            if begins_line and (head_row is None or row > head_row + 1):
                depths[row] = min(depths.get(row, depth + 1), depth + 1)
            head_row = child.end_point.row if begins_line and child.type in _HEADS else None
            if child.end_point.row > row:
                stack.append((child, depth + 1))
    for row in sorted(depths):
        yield Start(line_starts[row], depths[row])


def _indent(text: str, place: int) -> int:
    """The column of the line's first character that is no blank; blanks are ASCII, so bytes are characters."""
    end = place
    while end < len(text) and text[end] in " \t":
        end += 1
    return end - place
