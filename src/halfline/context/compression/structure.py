"""What a dependency can do without as a whole: the bodies of its functions, and comments.

A caller needs what it may call: names, parameters, types. Leaving out the bodies of dependencies' functions cost
completions nothing measurable in the work that proposed it (Zhang et al., "Hierarchical Context Pruning", 2024).

Read with a syntax tree where there is a grammar for the file; by indentation and the beginnings of lines otherwise.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from halfline.context.compression.passes import Budget, LinedPart, Shrunk, rewritten, without
from halfline.document.syntax_tree import PYTHON, Grammar, grammar_for, has_grammars, parse

if TYPE_CHECKING:
    from tree_sitter import Node

_FUNCTION = re.compile(r"function|method|constructor|lambda|closure|func_literal")
_HEAD = re.compile(
    r"\s*(?:[\w<>:&*\[\],]+\s+)*(?:def|fn|func|function)\b|\s*[\w<>:&*\[\], ]+\([^;]*\)[^;=]*\{\s*$"
)
_COMMENT = re.compile(r"\s*(?:#(?!!|include|define|if|el|end|pragma)|//|/\*.*\*/\s*$|\*(?:\s|/|$)|/\*)")


class Bodies:
    """Leaves out the insides of functions, nested ones with the outer one; signatures stay."""

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        return rewritten(parts, [self._signatures(part) for part in parts], "body")

    def _signatures(self, part: LinedPart) -> list[str | None]:
        texts: list[str | None] = [line.text for line in part.lines]
        grammar = _grammar(part)
        ranges = _bodies_by_indentation(part) if grammar is None else _bodies(part, grammar)
        for body in ranges:
            first = part.lines[body.start].text
            ends_in_block = grammar is PYTHON or part.lines[body.start - 1].text.rstrip().endswith(":")
            for position in body:
                texts[position] = None
            if ends_in_block:
                texts[body.start] = first[: len(first) - len(first.lstrip())] + "...\n"
        return texts


class Comments:
    """Leaves out lines that only comment, and empty ones. Documentation strings are code, and stay."""

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        cut = {
            (place, position)
            for place, part in enumerate(parts)
            for position in (*_comments(part), *_empty(part))
        }
        return without(parts, cut, "comment")


def _empty(part: LinedPart) -> Iterator[int]:
    return (position for position, line in enumerate(part.lines) if not line.text.strip())


def _grammar(part: LinedPart) -> Grammar | None:
    """None also where grammars are not installed: such a server does without."""
    return grammar_for(part.path) if part.path is not None and has_grammars() else None


def _nodes(part: LinedPart, grammar: Grammar, wanted: re.Pattern[str]) -> Iterator["Node"]:
    """The outermost nodes whose type has the pattern in it, in reading order."""
    tree = parse(part.text.encode(errors="replace"), grammar)
    if tree is None:
        return
    cursor = tree.walk()
    while True:
        node = cursor.node
        found = node is not None and node.is_named and wanted.search(node.type) is not None
        if found and node is not None and (wanted is not _FUNCTION or node.child_by_field_name("body")):
            yield node
        elif cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def _bodies(part: LinedPart, grammar: Grammar) -> Iterator[range]:
    """Positions of lines that belong to a function's body and to nothing else."""
    for node in _nodes(part, grammar, _FUNCTION):
        body = node.child_by_field_name("body")
        assert body is not None, "asked for above"
        start, stop = body.start_point[0], body.end_point[0] + 1
        if grammar is not PYTHON:  # the lines of the braces stay
            start, stop = start + 1, stop - 1
        elif start == node.start_point[0] or not _begins_line(part, start, body.start_point[1]):
            continue  # on the line of the signature
        if 0 < start < stop <= len(part.lines):
            yield range(start, stop)


def _begins_line(part: LinedPart, position: int, column: int) -> bool:
    return not part.lines[position].text.encode(errors="replace")[:column].strip()


def _bodies_by_indentation(part: LinedPart) -> Iterator[range]:
    position = 0
    while position < len(part.lines):
        line = part.lines[position].text
        position += 1
        if not _HEAD.match(line) or not line.rstrip().endswith((":", "{")):
            continue
        start, depth = position, _depth(line)
        while position < len(part.lines):
            text = part.lines[position].text
            if text.strip() and _depth(text) <= depth:
                break
            position += 1
        stop = position
        while stop > start and not part.lines[stop - 1].text.strip():
            stop -= 1
        if start < stop:
            yield range(start, stop)


def _depth(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())


def _comments(part: LinedPart) -> Iterator[int]:
    grammar = _grammar(part)
    if grammar is None:
        yield from (position for position, line in enumerate(part.lines) if _COMMENT.match(line.text))
        return
    for node in _nodes(part, grammar, _COMMENT_NODE):
        (first, column), (last, end) = node.start_point, node.end_point
        if end == 0 and last > first:  # some grammars count the line's end as the comment's
            last -= 1
            alone = True
        else:
            alone = (
                last >= len(part.lines) or not part.lines[last].text.encode(errors="replace")[end:].strip()
            )
        if alone and first < len(part.lines) and _begins_line(part, first, column):
            yield from range(first, min(last + 1, len(part.lines)))


_COMMENT_NODE = re.compile("comment")
