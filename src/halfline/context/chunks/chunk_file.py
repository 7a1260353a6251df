"""Rows of the chunk registry in one SQLite file, which several processes may share and any of them may be killed.

It is a cache: a damaged page, another version, a full disk, a file that may not be written to or is in use cost what
was in it and nothing else. Every row carries a digest of itself, so damage that SQLite does not see is found here. A
file that is damaged is deleted and begun anew, once; after that nothing is kept. Of uses that two processes count at
the same time one's stay.
"""

import logging
import sqlite3
import time
from array import array
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar, cast

from halfline.cache.sqlite_file import opened
from halfline.context.chunks.registry import ChunkRow, Kind
from halfline.telemetry.log import fields

VERSION = 1

_BUSY_S = 0.2  # another process writes for a few milliseconds; a prompt does not wait for a stuck one
_SIDE_FILES = ("-wal", "-shm")

_SCHEMA = f"""
create table if not exists chunks (
    id blob primary key, kind text not null, uses integer not null, used_at real not null
) without rowid;
create table if not exists chunk_tokens (
    id blob not null, vocabulary text not null, tokens blob not null, digest blob not null, primary key (id, vocabulary)
) without rowid;
create index if not exists by_use on chunks (used_at);
pragma user_version = {VERSION};
"""

_log = logging.getLogger(__name__)

T = TypeVar("T")


class ChunkFile:
    """Keeps about `max_bytes`; of more the longest unused goes. The registry's lock keeps threads apart."""

    def __init__(self, path: Path, max_bytes: int, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._now = now
        self._connection: sqlite3.Connection | None = None
        self._may_begin_anew = True
        self._attempt(self._connect, None)

    def read(self, chunk_id: bytes) -> ChunkRow | None:
        return self._attempt(lambda: self._read(chunk_id), None)

    def write(self, rows: list[ChunkRow]) -> None:
        self._attempt(lambda: self._write(rows), None)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _attempt(self, what: Callable[[], T], otherwise: T) -> T:
        """What it returns; `otherwise` where the file or the disk is in the way."""
        if self._connection is None and what != self._connect:
            return otherwise
        try:
            return what()
        except sqlite3.OperationalError as error:  # in use, read-only, full: perhaps not the next time
            self._tell(error)
        except (sqlite3.DatabaseError, OSError, ValueError, UnicodeDecodeError) as error:
            self._tell(error)
            self._begin_anew()
        return otherwise

    def _connect(self) -> None:
        self._connection = opened(self._path, _SCHEMA, VERSION, _BUSY_S)

    def _begin_anew(self) -> None:
        self.close()
        if not self._may_begin_anew:
            return
        self._may_begin_anew = False
        try:
            for suffix in ("", *_SIDE_FILES):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        except OSError as error:
            self._tell(error)
            return
        self._attempt(self._connect, None)

    def _read(self, chunk_id: bytes) -> ChunkRow | None:
        assert self._connection is not None
        found = self._connection.execute("select kind, uses from chunks where id = ?", (chunk_id,)).fetchone()
        # A damaged file may say of any column that it holds something else.
        if found is None or not isinstance(found[1], int):
            return None
        row = ChunkRow(chunk_id, cast(Kind, found[0]), found[1])
        for vocabulary, tokens, digest in self._connection.execute(
            "select vocabulary, tokens, digest from chunk_tokens where id = ?", (chunk_id,)
        ):
            sound = isinstance(vocabulary, str) and isinstance(tokens, bytes)
            if sound and digest == _digest(chunk_id, vocabulary, tokens):
                row.tokens[vocabulary] = tuple(array("i", tokens))
        return row

    def _write(self, rows: list[ChunkRow]) -> None:
        assert self._connection is not None
        now = self._now()
        self._connection.execute("begin immediate")
        try:
            for row in rows:
                self._connection.execute(
                    "insert or replace into chunks values (?, ?, ?, ?)", (row.id, row.kind, row.num_uses, now)
                )
                for vocabulary, tokens in row.tokens.items():
                    data = array("i", tokens).tobytes()
                    self._connection.execute(
                        "insert or replace into chunk_tokens values (?, ?, ?, ?)",
                        (row.id, vocabulary, data, _digest(row.id, vocabulary, data)),
                    )
            self._make_room(len(rows))
            self._connection.execute("commit")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            raise

    def _make_room(self, num_written: int) -> None:
        assert self._connection is not None
        pages, free, page_bytes = (
            self._connection.execute(f"pragma {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        if (pages - free) * page_bytes <= self._max_bytes:
            return
        # No more than is written at once: a prompt may be waiting.
        old = f"select id from chunks order by used_at limit {2 * num_written}"
        self._connection.execute(f"delete from chunk_tokens where id in ({old})")
        self._connection.execute(f"delete from chunks where id in ({old})")

    def _tell(self, error: Exception) -> None:
        _log.warning("chunk registry not kept on disk", extra=fields(path=str(self._path), reason=str(error)))


def _digest(chunk_id: bytes, vocabulary: str, tokens: bytes) -> bytes:
    digest = blake2b(chunk_id, digest_size=8)
    digest.update(len(vocabulary.encode()).to_bytes(4, "little") + vocabulary.encode() + tokens)
    return digest.digest()
