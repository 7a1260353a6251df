"""What a model's files hold, as one digest: computed once, then remembered for as long as nobody touches them.

    CACHE_DIR/digests      a line for each file: its device:inode:size:mtime:ctime, and its sha256

Whoever has the same bytes has the same digest, whatever the file is called and whenever it was fetched. Every byte
counts: the files are read whole. A file that was written to, even if its size and the time of its last change were put
back, has another ctime, and so is read again. Knows files, and nothing of what is inside.
"""

import hashlib
import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from halfline.errors import BadModel
from halfline.model.store import MANIFEST, sha256_of
from halfline.telemetry.log import fields

MEMORY = Path("digests")
"""Within the cache directory."""

_MAX_REMEMBERED = 256
_MAX_BYTES = 1 << 16
_LINE = re.compile(rb"^([\d:]+) ([0-9a-f]{64})$", re.MULTILINE)

_log = logging.getLogger(__name__)


def content_digest(path: Path, memory: Path) -> str:
    """sha256, in hexadecimal digits, of a file, or of the names and digests of a folder's files; what the model store
    notes of them (`halfline.json`) is not among those. `memory` is the file of what is remembered.

    Raises BadModel for a file that cannot be read. A `memory` that cannot be read or written costs reading again.
    """
    known = _remembered(memory)
    found: dict[str, str] = {}
    try:
        digest = _of_folder(path, known, found) if path.is_dir() else _digest(path, known, found)
    except OSError as error:
        raise BadModel(str(error.filename or path), f"it cannot be read: {error.strerror}") from error
    if found.keys() - known.keys():
        # What was used last is at the end.
        kept = [*((key, each) for key, each in known.items() if key not in found), *found.items()]
        _remember(memory, dict(kept[-_MAX_REMEMBERED:]))
    return digest


def _of_folder(folder: Path, known: Mapping[str, str], found: dict[str, str]) -> str:
    whole = hashlib.sha256()
    for file in sorted(each for each in folder.iterdir() if each.is_file() and each.name != MANIFEST):
        whole.update(f"{file.name} {_digest(file, known, found)}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def _digest(file: Path, known: Mapping[str, str], found: dict[str, str]) -> str:
    key = _key(file)
    digest = known.get(key) or sha256_of(file)
    if _key(file) == key:  # else somebody writes to it
        found[key] = digest
    return digest


def _key(file: Path) -> str:
    status = file.stat()
    numbers = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return ":".join(map(str, numbers))


def _remembered(memory: Path) -> dict[str, str]:
    try:
        with memory.open("rb") as file:
            data = file.read(_MAX_BYTES)
    except OSError:  # none yet
        return {}
    return {key.decode(): digest.decode() for key, digest in _LINE.findall(data)}


def _remember(memory: Path, entries: Mapping[str, str]) -> None:
    partial = memory.with_name(f"{memory.name}.{os.getpid()}")
    try:
        memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial.write_text("".join(f"{key} {each}\n" for key, each in entries.items()), encoding="ascii")
        partial.rename(memory)
    except OSError as error:
        _log.warning("a digest is not remembered", extra=fields(path=str(memory), reason=str(error)))
        with suppress(OSError):
            partial.unlink()
