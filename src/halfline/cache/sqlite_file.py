"""A SQLite file that several processes may share and that outlives `kill -9`, for its owner alone."""

import sqlite3
import time
from pathlib import Path

_BETWEEN_TRIES_S = 0.01


def opened(path: Path, schema: str, version: int, busy_s: float) -> sqlite3.Connection:
    """A connection, in WAL mode and without transactions of its own; used by one thread at a time, whichever.

    `schema` makes what is missing and sets `user_version`; another one that waits for a lock gives up after `busy_s`.
    Raises OSError, and sqlite3.Error, of which DatabaseError says that the file is damaged or of another version.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        write_ahead(connection, busy_s)
        connection.execute("pragma synchronous = normal")
        (found,) = connection.execute("pragma user_version").fetchone()
        if found not in (0, version):
            raise sqlite3.DatabaseError(f"it is of version {found}, this is {version}")
        connection.executescript(f"begin immediate; {schema} commit;")
    except BaseException:
        connection.close()
        raise
    return connection


def write_ahead(connection: sqlite3.Connection, busy_s: float) -> None:
    """Have WAL mode. Where the mode changes SQLite itself does not wait for who has the file, such as another one that
    opens it just now; here it is waited for, up to `busy_s`. Raises sqlite3.Error.
    """
    give_up = time.monotonic() + busy_s
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= give_up:
                raise
        time.sleep(_BETWEEN_TRIES_S)
