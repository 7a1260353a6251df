"""KV blocks in a directory: a file each, a bound on their bytes, and a key that lives beside them.

The directory belongs to one process at a time. A file appears whole, by a rename; what a killed process left
half-written is deleted at the next start, and so is every file that is not one of ours; what is no file, or cannot be
looked at or deleted, is left there and passed over. Damage is found when a block is
read: then it is deleted and was never there. Nothing is flushed to the platter: after a power cut some checksums are
wrong, which costs those blocks.

What is inside is prompts: the directory and its files are for their owner alone (0700, 0600).
Knows files; neither sequences nor executors.
"""

import fcntl
import logging
import os
import secrets
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from halfline.errors import BadSettings
from halfline.kv.block_file import HEADER_BYTES, BlockHeader, pack_block, read_header, unpack_block
from halfline.kv.names import BlockNames

_KEY_BYTES = 32
_SUFFIX = ".kv"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Entry:
    num_bytes: int
    parent: str


class DiskStore:
    """Keeps at most `max_bytes`, what was used longest ago goes first, of a prompt its end before its beginning.

    `scope` (SCOPE_BYTES) says what computes the KV: blocks of another are deleted. `name_bytes` is how much of a
    block's name is its file's name; what the file holds is compared whole. All but `in` is for one thread at a time.
    Raises BadSettings for a directory it cannot have.
    """

    def __init__(self, directory: Path, scope: bytes, max_bytes: int, name_bytes: int = 16) -> None:
        self._directory = directory
        self._scope = scope
        self._max_bytes = max_bytes
        self._name_bytes = name_bytes
        self._entries: OrderedDict[str, _Entry] = OrderedDict()  # used longest ago first
        self._num_children: Counter[str] = (
            Counter()
        )  # by the parent's file name, whether or not that is there
        self.num_bytes = 0
        self._refused = False
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _lock(directory)
            self._key = _key(directory)
            self._find_files()
        except BlockingIOError:
            raise BadSettings(
                f"another server uses {directory}: give this one a `cache_dir` of its own, or no `kv_disk_bytes`"
            ) from None
        except OSError as error:
            raise BadSettings(f"KV blocks cannot be kept in {directory}: {error}") from error
        self.names = BlockNames(self._key, scope)

    def __contains__(self, name: bytes) -> bool:
        """Whether a file by that name is there; only reading it shows whether it is right. From any thread."""
        return self._file_name(name) in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def write(self, header: BlockHeader, data: memoryview) -> None:
        """Keep a block; one that is there already, or never fits, is passed over. Raises OSError."""
        file_name = self._file_name(header.name)
        if file_name in self._entries or header.num_file_bytes > self._max_bytes:
            return
        self._make_room(header.num_file_bytes)
        path = self._directory / file_name
        partial = path.with_suffix(".partial")
        try:
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.writelines(pack_block(self._key, self._scope, header, data))
            partial.rename(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        self._add(file_name, header)

    def read(self, name: bytes, tokens: bytes) -> memoryview | None:
        """The data of the block of that name and these tokens; None when it is not there or not right. A directory that
        can only be read any more is read: nothing is raised.
        """
        file_name = self._file_name(name)
        if file_name not in self._entries:
            return None
        path = self._directory / file_name
        try:
            found = unpack_block(self._key, self._scope, path.read_bytes())
        except OSError as error:
            _log.warning("a KV block could not be read", extra={"path": str(path), "error": str(error)})
            found = None
        if found is None:
            with self._passed_over(path):
                self._delete(file_name)
            return None
        header, data = found
        if (header.name, header.tokens) != (name, tokens):
            return None  # its file's name is the same and nothing else: somebody else's block
        self._entries.move_to_end(file_name)
        with self._passed_over(path):
            os.utime(path)  # the order of eviction behind the next start
        return data

    def close(self) -> None:
        """Let another process have the directory."""
        os.close(self._lock)

    def check(self) -> None:
        """Assert that what is known is what is there. Walks."""
        sizes = {path.name: path.stat().st_size for path in self._directory.glob(f"*{_SUFFIX}")}
        assert sizes == {name: entry.num_bytes for name, entry in self._entries.items()}
        assert self.num_bytes == sum(sizes.values()) <= self._max_bytes
        assert self._num_children == Counter(entry.parent for entry in self._entries.values())

    @contextmanager
    def _passed_over(self, path: Path) -> Iterator[None]:
        """What the disk refuses is said once, and goes on without."""
        try:
            yield
        except OSError as error:
            if not self._refused:
                _log.warning("a KV file cannot be changed", extra={"path": str(path), "error": str(error)})
            self._refused = True

    def _find_files(self) -> None:
        """Learn what is there, delete what is not ours."""
        found: list[tuple[float, str, BlockHeader]] = []
        for path in _block_files(self._directory):
            try:
                header = _header_of(path, self._scope)
                if header is not None and path.name == self._file_name(header.name):
                    found.append((path.stat().st_mtime, path.name, header))
                else:
                    path.unlink()
            except OSError as error:
                _log.warning("a KV file is passed over", extra={"path": str(path), "error": str(error)})
        for _, file_name, header in sorted(found, key=lambda each: each[:2]):
            self._add(file_name, header)
        self._make_room(0)

    def _add(self, file_name: str, header: BlockHeader) -> None:
        parent = self._file_name(header.parent_name)
        self._entries[file_name] = _Entry(header.num_file_bytes, parent)
        self._num_children[parent] += 1
        self.num_bytes += header.num_file_bytes

    def _make_room(self, num_bytes: int) -> None:
        while self._entries and self.num_bytes + num_bytes > self._max_bytes:
            ends = (name for name in self._entries if not self._num_children[name])
            self._delete(
                next(ends, next(iter(self._entries)))
            )  # names cut short may form a ring, which has no end

    def _delete(self, file_name: str) -> None:
        entry = self._entries.pop(file_name)
        self.num_bytes -= entry.num_bytes
        self._num_children[entry.parent] -= 1
        if not self._num_children[entry.parent]:
            del self._num_children[entry.parent]
        (self._directory / file_name).unlink(missing_ok=True)

    def _file_name(self, name: bytes) -> str:
        return name[: self._name_bytes].hex() + _SUFFIX


def _block_files(directory: Path) -> Iterator[Path]:
    """What may be ours by its name. What is no file is told and left out: a pipe would be waited for."""
    for path in directory.iterdir():
        if path.suffix in (_SUFFIX, ".partial"):
            if path.is_file() and not path.is_symlink():
                yield path
            else:
                _log.warning("no KV file, although it is called like one", extra={"path": str(path)})


def _header_of(path: Path, scope: bytes) -> BlockHeader | None:
    """None when the file is not one of this scope's, or not as long as it says."""
    with path.open("rb") as file:
        header = read_header(scope, file.read(HEADER_BYTES))
    return header if header is not None and header.num_file_bytes == path.stat().st_size else None


def _lock(directory: Path) -> int:
    """Held until closed, or until the process ends, however it does."""
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _key(directory: Path) -> bytes:
    """The directory's key, made when there is none; with a new one, whatever was there is of no use."""
    path = directory / "key"
    key = path.read_bytes() if path.exists() else b""
    if len(key) != _KEY_BYTES:
        for stale in _block_files(directory):
            stale.unlink()
        key = secrets.token_bytes(_KEY_BYTES)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(key)
    return key
