"""Pieces of an indexed folder for a document: definitions that its imports lead to, and pieces that are alike.

A definition counts when its name stands near the cursor and its file is one that the document imports, as far as paths
tell: `from shop.basket import Basket` leads to `shop/basket.py`. A piece is alike by the share of names that it has in
common with the text around the cursor (Jaccard).
"""

import logging
import sqlite3
from collections.abc import Sequence
from pathlib import PurePosixPath

from halfline.context.documents import DocumentKey
from halfline.context.sources.definitions import imports
from halfline.context.sources.found import Found, similarity
from halfline.context.sources.index import Place, WorkspaceIndex
from halfline.context.sources.near import names_near_cursor
from halfline.request import Document, Part

_log = logging.getLogger(__name__)

_NUM_ALIKE = 6
_NUM_DEFINITIONS = 12


class ImportedDefinitions:
    """What the document imports and uses near the cursor, as it is defined."""

    def __init__(self, index: WorkspaceIndex) -> None:
        self._index = index

    def find(self, document: Document, key: DocumentKey | None) -> list[Found]:
        """Nothing, with a line in the log, when the index cannot be read."""
        statements = imports(document.prefix, document.path or "")
        if not statements:
            return []
        try:
            return self._definitions(document, statements)
        except sqlite3.Error as error:
            return _without(self._index, error)

    def _definitions(self, document: Document, statements: Sequence[tuple[str, ...]]) -> list[Found]:
        own = _relative(document.path, self._index)
        ranked = []
        for place in self._index.defining(names_near_cursor(document)):
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


class SimilarPieces:
    """Pieces anywhere in the folder that have most in common with the text around the cursor."""

    def __init__(self, index: WorkspaceIndex) -> None:
        self._index = index

    def find(self, document: Document, key: DocumentKey | None) -> list[Found]:
        """Nothing, with a line in the log, when the index cannot be read."""
        try:
            return self._alike(document)
        except sqlite3.Error as error:
            return _without(self._index, error)

    def _alike(self, document: Document) -> list[Found]:
        own = _relative(document.path, self._index)
        near = names_near_cursor(document)
        wanted = frozenset(near)
        ranked = []
        for place in self._index.using(near):
            share = similarity(wanted, place.names)
            if share is not None and place.path != own:
                ranked.append((-share, place.path, place.first, place))
        found: list[Found] = []
        for minus_share, path, _, place in sorted(ranked, key=lambda each: each[:3])[:_NUM_ALIKE]:
            text = self._index.text(place)
            if text is not None:
                num_shared = len(wanted & place.names)
                reason = (
                    f"has {num_shared} names in common with the text around the cursor ({-minus_share:.0%})"
                )
                found.append(Found(Part(text, path), reason, -minus_share))
        return found


def _without(index: WorkspaceIndex, error: sqlite3.Error) -> list[Found]:
    """A completion without it is better than none."""
    _log.warning("the index of %s cannot be read: %s", index.root, error)
    return []


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
