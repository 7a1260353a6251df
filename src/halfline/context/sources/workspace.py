"""Pieces of an indexed folder for a document: definitions that its imports lead to, and pieces that are alike.

A definition counts when its name stands near the cursor and its file is one that the document imports, as far as paths
tell: `from shop.basket import Basket` leads to `shop/basket.py`. A piece is alike by the share of names that it has in
common with the text around the cursor (Jaccard).
"""

import logging
import sqlite3
from collections.abc import Sequence
from pathlib import PurePosixPath

from halfline.context.compression.words import names
from halfline.context.sources.definitions import imports
from halfline.context.sources.found import Found, choose
from halfline.context.sources.index import Place, WorkspaceIndex
from halfline.request import Document, Part

_log = logging.getLogger(__name__)

_NEAR_LINES = 40
_LEAST_ALIKE = 0.08
_MOST_ALIKE = 0.8
"""More is probably a copy, which the model would only repeat."""
_NUM_ALIKE = 6
_NUM_DEFINITIONS = 12
_CHARACTERS = 4  # of a token of code, about


class WorkspaceSource:
    """Of one index; what it finds has about `num_tokens` tokens at most."""

    def __init__(self, index: WorkspaceIndex, num_tokens: int) -> None:
        self._index = index
        self._num_characters = num_tokens * _CHARACTERS

    def find(self, document: Document) -> list[Found]:
        """The best last. Nothing, with a line in the log, when the index cannot be read."""
        near = _near(document)
        own = _relative(document.path, self._index)
        try:
            found = [self._imported(document, near, own), self._alike(near, own)]
        except sqlite3.Error as error:  # a completion without it is better than none
            _log.warning("the index of %s cannot be read: %s", self._index.root, error)
            return []
        return choose(found, self._num_characters)

    def _imported(self, document: Document, near: Sequence[str], own: str | None) -> list[Found]:
        statements = imports(document.prefix, document.path or "")
        if not statements:
            return []
        ranked = []
        for place in self._index.defining(near):
            statement, score = _best_import(place, statements)
            if score and place.path != own:
                ranked.append(
                    (-score, -(place.stop - place.first), place.path, place.first, place, statement)
                )
        found: list[Found] = []
        covered: set[tuple[str, int]] = set()
        for minus_score, _, path, _, place, statement in sorted(ranked, key=lambda each: each[:4]):
            lines = {(path, number) for number in range(place.first, place.stop)}
            if len(found) == _NUM_DEFINITIONS or not covered.isdisjoint(lines):
                continue
            text = self._index.text(place)
            if text is not None:
                covered |= lines
                name = next(iter(place.names))
                reason = f"defines {name}, imported by way of {'.'.join(statement)}"
                found.append(Found(Part(text, path), reason, -minus_score))
        return found

    def _alike(self, near: Sequence[str], own: str | None) -> list[Found]:
        wanted = frozenset(near)
        found = []
        for place in self._index.using(near):
            shared = wanted & place.names
            share = len(shared) / len(wanted | place.names)
            if place.path == own or not _LEAST_ALIKE <= share <= _MOST_ALIKE:
                continue
            text = self._index.text(place)
            if text is not None:
                reason = f"has {len(shared)} names in common with the text around the cursor ({share:.0%})"
                found.append(Found(Part(text, place.path), reason, share))
        return sorted(found, key=lambda each: (-each.score, each.part.path or ""))[:_NUM_ALIKE]


def _near(document: Document) -> list[str]:
    """Names around the cursor, the nearest before it first."""
    before = document.prefix.splitlines()[-_NEAR_LINES:]
    behind = document.suffix.splitlines()[: _NEAR_LINES // 4]
    found = [*reversed(names("\n".join(before))), *names("\n".join(behind))]
    return list(dict.fromkeys(found))


def _relative(path: str | None, index: WorkspaceIndex) -> str | None:
    """The document's path as the index has it; an editor may send it whole."""
    if path is None:
        return None
    return path.replace("\\", "/").removeprefix(index.root.as_posix() + "/").removeprefix("./")


def _best_import(place: Place, statements: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], int]:
    """The statement that leads to the place, and how much of the path it names; 0: none does."""
    path = PurePosixPath(place.path)
    segments = [*path.parts[:-1], path.stem]
    if path.stem in ("__init__", "index", "mod", "lib"):
        segments.pop()
    best: tuple[tuple[str, ...], int] = ((), 0)
    for statement in statements:
        named = frozenset(statement)
        # The module itself; or its folder, where that is what is imported, or where it hands on what it has.
        by_module = bool(segments) and segments[-1] in named
        folder = segments[-2] if len(segments) > 1 else None
        if not by_module and folder != statement[-1] and not (folder in named and place.names & named):
            continue
        score = sum(each in named for each in segments[-3:]) + bool(place.names & named)
        if score > best[1]:
            best = statement, score
    return best
