"""Values by key in one SQLite file, which several processes may share and any of them may be killed.

The file is a cache: whatever is wrong with it, a damaged page, another version, a full disk, a file system that may not
be written to, costs what was in it and nothing else. A value carries a digest of itself and its key, so damage that
SQLite does not see is found here. Write-ahead logging makes a killed process's last transaction all or nothing.

A damaged file is put aside and begun anew; one that cannot be had at all holds nothing, and is tried again every
minute: a folder may be mounted late, or a disk emptied. For one thread at a time.
"""

import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from halfline.cache.memory import ENTRY_BYTES, Kept
from halfline.cache.seal import sealed, unsealed
from halfline.cache.sqlite_file import opened
from halfline.errors import InvariantBroken
from halfline.telemetry.log import fields

VERSION = 1
BUSY_S = 5.0
RETRY_S = 60.0
"""Between two attempts at a file that cannot be had."""

_KNOWN_BYTES = 8  # of each key, in memory: a disk that does not have it is not asked
_PUTS_BETWEEN_LOOKS = 256  # at the file's size: it may be larger by so many values
_PAGE_SHARE = 2.0
"""How much larger than its values the file may be: keys, the index and pages that are not full."""

_log = logging.getLogger(__name__)

_Statement = tuple[str, Sequence[object]]

_SCHEMA = f"""
create table if not exists answers (
    sequence integer primary key autoincrement,
    key blob not null unique,
    value blob not null,
    stored_at real not null,
    used_at real not null
);
create index if not exists by_use on answers (used_at);
pragma user_version = {VERSION};
"""


class SqliteTier:
    """Keeps at most `max_bytes` of values. Nothing here raises for what the file or the disk does."""

    name = "disk"

    def __init__(
        self, path: Path, max_bytes: int, max_age_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._clock = clock
        self._tried_at = clock()
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._connection: sqlite3.Connection | None = None
        self._last_sequence = 0
        self._num_puts = 0
        self._known: set[bytes] = set()
        self.num_failures = 0
        """Times that the file or the disk did not do what it was asked."""

    def open(self) -> None:
        """Have the file, anew if it is not usable."""
        self._tried_at = self._clock()
        for attempt in range(2):
            try:
                self._connection = self._connect()
                return
            except (sqlite3.DatabaseError, OSError) as error:
                self._failed(error)
                if attempt or not _is_damage(error) or not self._put_aside():
                    return

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def may_hold(self, key: bytes) -> bool:
        """As far as is known by the last `refresh`. From any thread."""
        return key[:_KNOWN_BYTES] in self._known

    def refresh(self) -> None:
        """Learn what was put since the last time, by any process; have the file, if it is time to try again."""
        if self._connection is None and self._clock() - self._tried_at >= RETRY_S:
            self.open()
        rows = self._read("select sequence, key from answers where sequence > ?", (self._last_sequence,))
        for sequence, key in rows:
            self._last_sequence = max(self._last_sequence, sequence)
            if isinstance(key, bytes):
                self._known.add(key[:_KNOWN_BYTES])

    def newest(self, max_bytes: int) -> list[tuple[bytes, Kept]]:
        """What was used last, the latest first, up to so many bytes of values."""
        found: list[tuple[bytes, Kept]] = []
        num_bytes = 0
        for key, value, stored_at in self._read(
            "select key, value, stored_at from answers order by used_at desc limit ?",
            (max_bytes // ENTRY_BYTES,),
        ):
            kept = _whole(key, value, stored_at)
            if kept is None:
                continue
            num_bytes += len(kept.value)
            if num_bytes > max_bytes:
                break
            found.append((key, kept))
        return found

    def get(self, key: bytes, now: float) -> Kept | None:
        """None when it is not there, too old, or not whole."""
        rows = self._read("select value, stored_at from answers where key = ?", (key,))
        for value, stored_at in rows:
            kept = _whole(key, value, stored_at)
            if kept is None:
                self._failed(ValueError("a value is damaged"))
                self._write([("delete from answers where key = ?", (key,))])
            elif not kept.too_old(now, self._max_age_s):
                return kept
        self._known.discard(key[:_KNOWN_BYTES])
        return None

    def put(self, entries: Collection[tuple[bytes, Kept]], used: Collection[bytes], now: float) -> None:
        """Keep the entries in place of what was there, and note that the `used` ones were; in one transaction."""
        statements: list[_Statement] = [
            (
                "insert or replace into answers (key, value, stored_at, used_at) values (?, ?, ?, ?)",
                (key, sealed(key, kept.value), kept.stored_at, now),
            )
            for key, kept in entries
        ]
        statements += [("update answers set used_at = ? where key = ?", (now, key)) for key in used]
        self._write(statements)
        self._num_puts += len(entries)
        if self._num_puts >= _PUTS_BETWEEN_LOOKS:
            self._num_puts = 0
            self._make_room(now)

    def check(self) -> None:
        """Raise InvariantBroken unless SQLite finds the file whole. Values are looked at whenever they are read."""
        if self._connection is not None and self._read("pragma integrity_check", ()) != [("ok",)]:
            raise InvariantBroken(f"{self._path} is damaged")

    def _connect(self) -> sqlite3.Connection:
        connection = opened(self._path, _SCHEMA, VERSION, BUSY_S)
        try:
            (page_bytes,) = connection.execute("pragma page_size").fetchone()
            max_pages = int(self._max_bytes * _PAGE_SHARE) // page_bytes + 64
            connection.execute(f"pragma max_page_count = {max_pages}")
            # Takes as long as reading the file, and nobody waits for it.
            if connection.execute("pragma integrity_check(1)").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("a page is damaged")
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_room(self, now: float) -> None:
        """Forget what is too old, and what was used longest ago as far as the rest is too large."""
        statements: list[_Statement] = [
            ("delete from answers where abs(stored_at - ?) > ?", (now, self._max_age_s))
        ]
        for num_bytes, count in self._read("select total(length(value)), count(*) from answers", ()):
            excess = num_bytes - self._max_bytes
            if excess > 0:
                # A tenth more than needs be: looking for room reads all lengths.
                statements.append((_FORGET, (excess + self._max_bytes // 10,)))
            if len(self._known) > 2 * count:  # most were forgotten, by whichever process
                self._known.clear()
                self._last_sequence = 0
        self._write(statements)

    def _read(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """The rows; none where they cannot be read."""
        if self._connection is None:
            return []
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            self._failed(error)
            return []

    def _write(self, statements: Sequence[_Statement]) -> bool:
        """All of them or none; whether they were."""
        if self._connection is None:
            return False
        try:
            self._connection.execute("begin immediate")
            for statement, values in statements:
                self._connection.execute(statement, values)
            self._connection.execute("commit")
        except sqlite3.DatabaseError as error:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            self._failed(error)
            return False
        return True

    def _failed(self, error: Exception) -> None:
        self.num_failures += 1
        if self.num_failures == 1:  # one line, not one for every answer
            _log.warning(
                "the file of answers does not do", extra=fields(path=str(self._path), reason=str(error))
            )
        if self._connection is not None and _is_damage(error):
            self.close()
            if self._put_aside():
                self.open()

    def _put_aside(self) -> bool:
        """Have no file; whether that could be done. The log goes first: it must never meet a new file."""
        try:
            for suffix in ("-wal", "-shm", ""):
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        except OSError as error:
            self._failed(error)
            return False
        self._last_sequence = 0
        self._known.clear()
        return True


_FORGET = """
delete from answers where sequence in (
    select sequence from (
        select sequence, total(length(value)) over (order by used_at, sequence rows unbounded preceding) as up_to
        from answers
    ) where up_to <= ?
)
"""


def _whole(key: object, value: object, stored_at: object) -> Kept | None:
    """None when this is not what was put: columns say what they hold in bytes that may be damaged like any other."""
    if not (isinstance(key, bytes) and isinstance(value, bytes) and isinstance(stored_at, float)):
        return None
    found = unsealed(key, value)
    return None if found is None else Kept(found, stored_at)


def _is_damage(error: Exception) -> bool:
    """Not so what the file system refuses, or another process holds: SQLite calls that operational."""
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
