"""Which files of a folder are read for an index: source code that people wrote and may show.

Left out: what `.gitignore` leaves out, hidden folders and those of dependencies; files that hold secrets by name or by
what is in them; binary, huge and minified ones; links, which may lead anywhere.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from halfline.errors import MissingExtra

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MAX_BYTES = 512 * 1024
_MAX_MEAN_LINE = 200
_MAX_LINE = 5_000
_FEW_LINES = 5  # may be long

_SUFFIXES = frozenset(
    ".py .pyi .js .mjs .cjs .jsx .ts .mts .cts .tsx .rs .go .java .c .h .cc .cpp .cxx .hh .hpp .hxx .cs .kt .kts .swift"
    " .scala .rb .php .lua .dart .ex .exs .erl .hs .ml .jl .r .sh .bash .sql .proto .vue .svelte .zig".split()
)
_FOLDERS = frozenset(
    "node_modules __pycache__ venv env site-packages vendor target build dist bower_components Pods".split()
)
_SECRET_NAMES = re.compile(
    r"(?i)^\.env|\.env$|\.(?:pem|key|p12|pfx|jks|keystore|kdbx|asc|gpg)$|^id_(?:rsa|dsa|ecdsa|ed25519)"
    r"|^\.?(?:netrc|pgpass|htpasswd|npmrc|pypirc)$|^(?:secrets?|credentials?|passwords?)\.\w+$"
)
_SECRETS = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}"
    rb"|\bxox[abprs]-[0-9A-Za-z-]{20}|\bsk-[A-Za-z0-9_-]{32}|\bAIza[0-9A-Za-z_-]{35}\b|\bglpat-[0-9A-Za-z_-]{20}"
)
_MINIFIED = re.compile(r"[.-]min\.|\.bundle\.|\.generated\.|_pb2\.py$")


@dataclass(frozen=True, slots=True)
class Candidate:
    """`path` is relative to the folder, with slashes."""

    path: str
    mtime_ns: int
    num_bytes: int


def candidates(root: Path) -> Iterator[Candidate]:
    """Files that may be read, going by names, sizes and `.gitignore` alone; in order, one folder at a time.

    Raises MissingExtra without the extra `index`. A folder that cannot be listed is passed over.
    """
    rules = _rules(root, "")
    yield from _inside(root, "", [] if rules is None else [("", rules)])


def is_secret(path: str) -> bool:
    return _SECRET_NAMES.search(PurePosixPath(path).name) is not None


def read(root: Path, path: str) -> str | None:
    """The file's text; None for one that is not to be shown, or is gone."""
    try:
        with open(root / path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError:
        return None
    if len(data) > MAX_BYTES or b"\0" in data or _SECRETS.search(data) is not None:
        return None
    lines = data.splitlines() or [b""]
    if len(data) > _MAX_MEAN_LINE * (len(lines) + _FEW_LINES) or max(map(len, lines)) > _MAX_LINE:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _inside(folder: Path, prefix: str, rules: list[tuple[str, "GitIgnoreSpec"]]) -> Iterator[Candidate]:
    try:
        with os.scandir(folder) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = prefix + entry.name
        if entry.is_symlink():
            continue
        if entry.is_dir():
            if entry.name.startswith(".") or entry.name in _FOLDERS or _ignored(path + "/", rules):
                continue
            own = _rules(Path(entry.path), path + "/")
            yield from _inside(
                Path(entry.path), path + "/", rules if own is None else [*rules, (path + "/", own)]
            )
        elif PurePosixPath(entry.name).suffix.lower() in _SUFFIXES and entry.is_file():
            if is_secret(path) or _MINIFIED.search(entry.name) or _ignored(path, rules):
                continue
            try:
                stat = entry.stat()
            except OSError:
                continue
            if 0 < stat.st_size <= MAX_BYTES:
                yield Candidate(path, stat.st_mtime_ns, stat.st_size)


def _rules(folder: Path, prefix: str) -> "GitIgnoreSpec | None":
    try:
        from pathspec import GitIgnoreSpec  # optional dependency
    except ImportError as error:
        raise MissingExtra("reading .gitignore files", "index") from error
    try:
        lines = (folder / ".gitignore").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return GitIgnoreSpec.from_lines(lines)


def _ignored(path: str, rules: list[tuple[str, "GitIgnoreSpec"]]) -> bool:
    """The innermost `.gitignore` that says anything has the last word."""
    for prefix, spec in reversed(rules):
        verdict = spec.check_file(path.removeprefix(prefix)).include
        if verdict is not None:
            return verdict
    return False
