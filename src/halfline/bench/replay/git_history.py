"""A file's commits as somebody's typing: between two versions every hunk is typed, top to bottom.

What nobody types alike is fixed by rule, and the same for every server: text that goes is selected and deleted at
once, text that comes is typed character by character, and a new line brings its indentation, as editors do it. Runs
git; writes nothing.
"""

import difflib
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from halfline.bench.replay.trace import Edit, Trace, Transaction
from halfline.document.encoded_text import common_length

_MOST_BYTES = 1 << 20  # of one version: comparing longer ones line by line takes too long


def history(repository: Path, path: str) -> Trace:
    """Every version of `path` on the way to HEAD, typed. Raises ValueError where git knows nothing of it."""
    commits = _git(repository, "log", "--reverse", "--format=%H", "--", path).split()
    if not commits:
        raise ValueError(f"no commit of {repository.name} has a file {path}")
    text = ""
    transactions: list[Transaction] = []
    for commit in commits:
        if not _git(repository, "ls-tree", commit, "--", path):
            continue  # it was deleted here
        newer = _git(repository, "show", f"{commit}:{path}")
        if len(newer) > _MOST_BYTES:
            raise ValueError(
                f"{path} has {len(newer)} characters in {commit[:8]}, the limit is {_MOST_BYTES}"
            )
        transactions += typed(text, newer)
        text = newer
    return Trace(path, "", transactions)


def most_changed(repository: Path, num_files: int) -> list[str]:
    """The files of HEAD that most commits touched, of equally many the first by name. Raises ValueError."""
    alive = set(_git(repository, "ls-files").splitlines())
    touched = Counter(_git(repository, "log", "--format=", "--name-only", "--diff-filter=AM").split("\n"))
    ranked = sorted((path for path in alive if touched[path]), key=lambda path: (-touched[path], path))
    if not ranked:
        raise ValueError(f"{repository.name} has no committed files")
    return ranked[:num_files]


def typed(old: str, new: str) -> Iterator[Transaction]:
    """The keystrokes from one version to the next."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    place = 0
    for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        gone, come = "".join(before[i1:i2]), "".join(after[j1:j2])
        if kind != "equal":
            yield from _hunk(place, gone, come)
        place += len(come)


def _hunk(place: int, gone: str, come: str) -> Iterator[Transaction]:
    """What both begin and end with is left alone."""
    start = common_length(gone, come)
    end = common_length(gone[start:][::-1], come[start:][::-1])
    place += start
    num_gone = len(gone) - start - end
    if num_gone:
        yield (Edit(place, num_gone, ""),)
    for stroke in strokes(come[start : len(come) - end]):
        yield (Edit(place, 0, stroke),)
        place += len(stroke)


def strokes(text: str) -> Iterator[str]:
    """Single characters, but a line end with the blanks behind it."""
    i = 0
    while i < len(text):
        j = i + 1
        if text[i] == "\n":
            while j < len(text) and text[j] in " \t":
                j += 1
        yield text[i:j]
        i = j


def _git(repository: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, check=True)
        return done.stdout.decode()
    except (OSError, subprocess.CalledProcessError, UnicodeDecodeError) as error:
        raise ValueError(f"git {arguments[0]} in {repository.name}: {error}") from error
