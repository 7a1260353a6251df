"""Holes in files that nobody prepared: a user's own repository, or the texts that come with the package."""

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from halfline.context.sources.files import FOLDERS_OF_OTHERS, is_unicode
from halfline.quality.cuts import holes, source_files
from halfline.quality.infilling.suites import Task

MOST_FILES = 200  # per language
_HOLES_PER_FILE = 4
_MAX_CHARACTERS = 400  # of what is missing: what a model is asked for at a time


def repository_tasks(folder: Path, seed: int) -> list[Task]:
    """Holes in the folder's own source files, not in those of dependencies and builds; the same files and seed give the
    same. Raises OSError or ValueError.
    """
    files = source_files(sorted(_own_files(folder)), MOST_FILES, seed)
    if not files:
        raise ValueError(f"{folder} has no source files of a usual size")
    return [
        task
        for file in files
        for task in file_tasks(
            file.read_bytes().decode("utf-8", "replace"), file.relative_to(folder).as_posix(), seed
        )
    ]


def _own_files(folder: Path) -> Iterator[Path]:
    for inner, folders, names in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".") and name not in FOLDERS_OF_OTHERS and is_unicode(name)
        ]
        yield from (Path(inner, name) for name in names if is_unicode(name))


def text_tasks(files: Sequence[Path], seed: int) -> list[Task]:
    """Holes in these files; `.txt` behind another extension is not part of a name. Raises OSError."""
    return [
        task
        for file in files
        for task in file_tasks(file.read_text("utf-8"), file.name.removesuffix(".txt"), seed)
    ]


def file_tasks(text: str, path: str, seed: int) -> Iterator[Task]:
    """The rests of some lines, and some blocks."""
    chance = random.Random(f"{seed} {path}")
    found = 0
    for hole in holes(text, path, _HOLES_PER_FILE, chance):
        wanted = hole.answer[: hole.length]
        if hole.kind in ("line", "block") and wanted.strip() and len(wanted) <= _MAX_CHARACTERS:
            found += 1
            yield Task(
                id=f"{path}#{found}",
                problem=path,
                path=path,
                prefix=hole.document.prefix,
                suffix=hole.document.suffix,
                wanted=wanted,
                single_line=hole.kind == "line",
                checks=None,
            )
