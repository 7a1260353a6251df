"""What a folder's source files define and which names their pieces use, kept in one SQLite file.

Holds no source text: a piece is read from its file when it is wanted, and only if the file is still as it was. Memory
is bounded by SQLite's cache and one file at a time, whatever the folder's size.

    files     path, when and how long it was read
    symbols   name, and lines [first, stop) that define it
    pieces    lines [first, stop) of up to 20 lines, and the names in them, found by any of them
"""

import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from halfline.cache.sqlite_file import write_ahead
from halfline.context.compression.words import names
from halfline.context.sources import files
from halfline.context.sources.definitions import definitions, lines_of
from halfline.errors import BadSettings

PIECE_LINES = 20
_COMMIT_FILES = 500
_MAX_QUERY_NAMES = 12  # the rarest; a name that is everywhere finds nothing in particular
_MAX_DOCUMENTS_OF_A_NAME = 400  # pieces
_FORMAT = 2

_BUSY_S = 10.0
_PATIENCE_S = 5.0  # until another update ends
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_TABLES = f"""
pragma user_version = {_FORMAT};
create table files(id integer primary key, path text unique, mtime_ns integer, num_bytes integer);
create table symbols(name text, file integer, first integer, stop integer);
create index symbols_by_name on symbols(name);
create index symbols_by_file on symbols(file);
create table pieces(id integer primary key, file integer, first integer, stop integer);
create index pieces_by_file on pieces(file);
create virtual table piece_names using fts5(names, detail=none, tokenize="unicode61 tokenchars '_'");
create virtual table name_counts using fts5vocab(piece_names, 'row');
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Lines [first, stop) of a file; `names` are those used there, of a symbol its own alone."""

    path: str
    first: int
    stop: int
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Updated:
    """Files that were read, that were as before, that were not to be shown or gone, and that were forgotten."""

    num_read: int
    num_unchanged: int
    num_refused: int
    num_forgotten: int


class WorkspaceIndex:
    """Of one folder. Any thread may ask; one at a time updates."""

    def __init__(self, root: Path, file: Path) -> None:
        self.root = root
        self._file = file

    @property
    def exists(self) -> bool:
        """Whether the folder was read, into a file of this format that can be read."""
        return self.num_files() is not None

    def update(self, advanced: Callable[[int], None] = lambda num_files: None) -> Updated:
        """Read what is new or changed, forget what is gone. `advanced` is told of every file seen.

        What was done is kept when it is interrupted; a damaged index is made anew. Raises MissingExtra, and BadSettings
        when the folder cannot be listed, the index cannot be written, or another update is under way.
        """
        try:
            os.scandir(self.root).close()  # or all of it would be forgotten
        except OSError as error:
            raise BadSettings(f"{self.root} cannot be read: {error.strerror}") from error
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._alone():
                try:
                    return self._update(advanced)
                except sqlite3.DatabaseError as error:
                    if error.sqlite_errorcode & 0xFF not in _DAMAGED:
                        raise
                self._remove()
                return self._update(advanced)
        except (OSError, sqlite3.Error) as error:
            raise BadSettings(f"the index {self._file} cannot be written: {error}") from error

    def _update(self, advanced: Callable[[int], None]) -> Updated:
        counts = dict.fromkeys(("read", "unchanged", "refused"), 0)
        with self._connected() as database:
            _prepare(database)
            database.execute("create temp table seen(id integer primary key)")
            for number, candidate in enumerate(files.candidates(self.root)):
                counts[self._take(database, candidate)] += 1
                if number % _COMMIT_FILES == 0:
                    database.commit()
                advanced(1)
            gone = [
                row[0]
                for row in database.execute("select id from files where id not in (select id from seen)")
            ]
            for file_id in gone:
                _forget(database, file_id)
            database.commit()
        return Updated(counts["read"], counts["unchanged"], counts["refused"], len(gone))

    def defining(self, wanted: Sequence[str], limit: int = 100) -> list[Place]:
        """Where any of these names is defined, each at most `limit` times."""
        places = []
        with self._connected() as database:
            for name in wanted:
                rows = database.execute(
                    "select path, first, stop from symbols join files on files.id = file where name = ? limit ?",
                    (name, limit),
                )
                places += [Place(path, first, stop, frozenset((name,))) for path, first, stop in rows]
        return places

    def using(self, wanted: Sequence[str], limit: int = 40) -> list[Place]:
        """Pieces that use the rarest of these names, those that use more of the rare ones first."""
        with self._connected() as database:
            query = " OR ".join(f'"{name}"' for name in _rarest(database, wanted))
            if not query:
                return []
            rows = database.execute(
                "select path, first, stop, names from piece_names join pieces on pieces.id = piece_names.rowid"
                " join files on files.id = file where piece_names match ? order by rank, piece_names.rowid limit ?",
                (query, limit),
            )
            return [Place(path, first, stop, frozenset(used.split())) for path, first, stop, used in rows]

    def text(self, place: Place) -> str | None:
        """What stands there now; None if the file changed since it was read, and the lines may be others."""
        try:
            stat = (self.root / place.path).stat()
        except OSError:
            return None
        with self._connected() as database:
            known = database.execute(
                "select mtime_ns, num_bytes from files where path = ?", (place.path,)
            ).fetchone()
        if known != (stat.st_mtime_ns, stat.st_size):
            return None
        text = files.read(self.root, place.path)
        return None if text is None else "".join(lines_of(text)[place.first : place.stop])

    def database_files(self) -> list[Path]:
        """Of the index, with SQLite's companions."""
        return sorted(self._file.parent.glob(self._file.name + "*"))

    def num_files(self) -> int | None:
        """None where the folder was not read, or the index of it cannot be."""
        if not self._file.exists():
            return None
        try:
            with self._connected() as database:
                (version,) = database.execute("pragma user_version").fetchone()
                if version != _FORMAT:
                    return None
                (count,) = database.execute("select count(*) from files").fetchone()
        except sqlite3.Error:
            return None
        return int(count)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._file, timeout=_BUSY_S)) as database:
            yield database

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else updates meanwhile. It ends with the process, however that ends."""
        lock = self._file.with_suffix(".lock")
        with closing(sqlite3.connect(lock, timeout=_PATIENCE_S, isolation_level=None)) as database:
            try:
                database.execute("begin exclusive")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                raise BadSettings(f"{self.root} is being read by another process; try again later") from error
            yield

    def _remove(self) -> None:
        for file in self.database_files():
            file.unlink(missing_ok=True)

    def _take(self, database: sqlite3.Connection, candidate: files.Candidate) -> str:
        """Read one file, unless it is known as it is; and what became of it."""
        stamp = candidate.mtime_ns, candidate.num_bytes
        known = database.execute(
            "select id, mtime_ns, num_bytes from files where path = ?", (candidate.path,)
        ).fetchone()
        if known is not None and known[1:] == stamp:
            database.execute("insert into seen values (?)", (known[0],))
            return "unchanged"
        text = files.read(self.root, candidate.path)
        if known is not None:
            _forget(database, known[0])
        if text is None:
            return "refused"
        inserted = database.execute(
            "insert into files(path, mtime_ns, num_bytes) values (?, ?, ?)", (candidate.path, *stamp)
        )
        file_id = inserted.lastrowid
        assert file_id is not None, "a row was inserted"
        database.execute("insert into seen values (?)", (file_id,))
        _learn(database, file_id, candidate.path, text)
        return "read"


def index_of(root: Path, data_dir: Path) -> WorkspaceIndex:
    """The index of a folder: one file for each, in the data directory."""
    root = root.resolve()
    name = re.sub(r"\W+", "-", root.name) + "-" + hashlib.sha256(str(root).encode()).hexdigest()[:12]
    return WorkspaceIndex(root, data_dir / "index" / f"{name}.sqlite")


def _prepare(database: sqlite3.Connection) -> None:
    """An index of another format is made anew: everything in it can be read again."""
    (version,) = database.execute("pragma user_version").fetchone()
    write_ahead(database, _BUSY_S)
    database.execute("pragma synchronous = normal")
    if version == _FORMAT:
        return
    for (name,) in database.execute(
        "select name from sqlite_master where type = 'table' and name in"
        " ('files', 'symbols', 'pieces', 'piece_names', 'name_counts')"
    ).fetchall():
        database.execute(f"drop table if exists {name}")
    database.executescript(_TABLES)


def _learn(database: sqlite3.Connection, file_id: int, path: str, text: str) -> None:
    database.executemany(
        "insert into symbols values (?, ?, ?, ?)",
        [(each.name, file_id, each.first, each.stop) for each in definitions(text, path)],
    )
    lines = lines_of(text)
    for first in range(0, len(lines), PIECE_LINES):
        stop = min(len(lines), first + PIECE_LINES)
        used = set(names("".join(lines[first:stop])))
        inserted = database.execute(
            "insert into pieces(file, first, stop) values (?, ?, ?)", (file_id, first, stop)
        )
        database.execute(
            "insert into piece_names(rowid, names) values (?, ?)",
            (inserted.lastrowid, " ".join(sorted(used))),
        )


def _forget(database: sqlite3.Connection, file_id: int) -> None:
    database.execute(
        "delete from piece_names where rowid in (select id from pieces where file = ?)", (file_id,)
    )
    database.execute("delete from pieces where file = ?", (file_id,))
    database.execute("delete from symbols where file = ?", (file_id,))
    database.execute("delete from files where id = ?", (file_id,))


def _rarest(database: sqlite3.Connection, wanted: Sequence[str]) -> list[str]:
    """Those that are in the index at all, seldom enough to tell pieces apart."""
    counted = []
    for name in dict.fromkeys(wanted):
        row = database.execute("select doc from name_counts where term = ?", (name.lower(),)).fetchone()
        if row is not None and row[0] <= _MAX_DOCUMENTS_OF_A_NAME:
            counted.append((row[0], name))
    return [name for _, name in sorted(counted)[:_MAX_QUERY_NAMES]]
