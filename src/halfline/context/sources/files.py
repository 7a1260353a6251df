"""Which files of a folder are read for an index: source code that people wrote and may show.

Left out: what `.gitignore` leaves out, hidden folders and those of dependencies; files that hold secrets by name or by
what is in them; binary, huge and minified ones; links, which may lead anywhere; names that are no Unicode.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from halfline.errors import MissingExtra

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    # Each with the folder that they are about, the innermost last.
    Rules = Sequence[tuple[str, GitIgnoreSpec]]

MAX_BYTES = 512 * 1024
_IGNORE = ".gitignore"
_MAX_MEAN_LINE = 200
_MAX_LINE = 5_000
_FEW_LINES = 5  # may be long

_SUFFIXES = frozenset(
    ".py .pyi .js .mjs .cjs .jsx .ts .mts .cts .tsx .rs .go .java .c .h .cc .cpp .cxx .hh .hpp .hxx .cs .kt .kts .swift"
    " .scala .rb .php .lua .dart .ex .exs .erl .hs .ml .jl .r .sh .bash .sql .proto .vue .svelte .zig".split()
)
FOLDERS_OF_OTHERS = frozenset(
    "node_modules __pycache__ venv env site-packages vendor target build dist bower_components Pods".split()
)
"""Of dependencies and of what was built."""
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

    Of a folder within a git repository the rules above it count too. Raises MissingExtra where there are rules to read
    and the extra `index` is missing. A folder that cannot be listed is passed over.
    """
    above, rules = _rules_above(root)
    listed = [
        _listed(_Folder(root, above, rules))
    ]  # of the folders around the one at hand, the innermost last
    while listed:
        found = next(listed[-1], None)
        if found is None:
            listed.pop()
            continue
        entry, path, rules = found
        if entry.is_dir():
            if not _is_left_out(entry.name, path, rules):
                listed.append(_listed(_Folder(Path(entry.path), f"{path}/", rules)))
        elif _may_be_read(entry, path, rules):
            try:
                stat = entry.stat()
            except OSError:
                continue
            if 0 < stat.st_size <= MAX_BYTES:
                yield Candidate(path.removeprefix(above), stat.st_mtime_ns, stat.st_size)


def is_secret(path: str) -> bool:
    return _SECRET_NAMES.search(PurePosixPath(path).name) is not None


def is_unicode(name: str) -> bool:
    """Other names can be neither shown nor written down."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


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


@dataclass(frozen=True, slots=True)
class _Folder:
    """`prefix` is its path from where rules begin, with a slash behind it; `rules` those of the folders around it."""

    path: Path
    prefix: str
    rules: "Rules"


def _listed(folder: _Folder) -> Iterator[tuple["os.DirEntry[str]", str, "Rules"]]:
    """What is in it but links, with its path and all rules for it, in order."""
    try:
        with os.scandir(folder.path) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError:
        return
    rules = folder.rules
    if any(entry.name == _IGNORE and entry.is_file() for entry in entries):
        rules = [*rules, (folder.prefix, _rules(folder.path))]
    for entry in entries:
        if not entry.is_symlink() and is_unicode(entry.name):
            yield entry, folder.prefix + entry.name, rules


def _is_left_out(name: str, path: str, rules: "Rules") -> bool:
    return name.startswith(".") or name in FOLDERS_OF_OTHERS or _ignored(f"{path}/", rules)


def _may_be_read(entry: "os.DirEntry[str]", path: str, rules: "Rules") -> bool:
    return (
        PurePosixPath(entry.name).suffix.lower() in _SUFFIXES
        and entry.is_file()
        and not is_secret(path)
        and _MINIFIED.search(entry.name) is None
        and not _ignored(path, rules)
    )


def _rules_above(root: Path) -> tuple[str, "Rules"]:
    """Root's path within its repository, with a slash behind it, and the rules of the folders down to it; "" where it
    is the repository, or in none. Who asks for a folder that is left out itself wants it all the same.
    """
    root = root.resolve()
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    prefix, rules = "", []
    for name in root.relative_to(top).parts:
        if (top / prefix / _IGNORE).is_file():
            rules.append((prefix, _rules(top / prefix)))
        prefix += f"{name}/"
    return prefix, [] if _ignored(prefix, rules) else rules


def _rules(folder: Path) -> "GitIgnoreSpec":
    """Of its `.gitignore`; a line that is no pattern says nothing, as in git."""
    try:
        from pathspec import GitIgnoreSpec  # optional dependency
    except ImportError as error:
        raise MissingExtra("reading .gitignore files", "index") from error
    try:
        with open(folder / _IGNORE, encoding="utf-8-sig", errors="replace") as file:
            lines = file.read(MAX_BYTES).splitlines()
    except OSError:
        lines = []
    return GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec  # optional dependency

    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True


def _ignored(path: str, rules: "Rules") -> bool:
    """The innermost `.gitignore` that says anything has the last word."""
    for prefix, spec in reversed(rules):
        verdict = spec.check_file(path.removeprefix(prefix)).include
        if verdict is not None:
            return verdict
    return False
