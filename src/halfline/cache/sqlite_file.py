"""A SQLite file that several processes may share and that outlives `kill -9`, for its owner alone."""

import sqlite3
from pathlib import Path


def opened(path: Path, schema: str, version: int, busy_s: float) -> sqlite3.Connection:
    """A connection, in WAL mode and without transactions of its own; used by one thread at a time, whichever.

    `schema` makes what is missing and sets `user_version`; another one that waits for a lock gives up after `busy_s`.
    Raises OSError, and sqlite3.Error, of which DatabaseError says that the file is damaged or of another version.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")
        (found,) = connection.execute("pragma user_version").fetchone()
        if found not in (0, version):
            raise sqlite3.DatabaseError(f"it is of version {found}, this is {version}")
        connection.executescript(f"begin immediate; {schema} commit;")
    except BaseException:
        connection.close()
        raise
    return connection
