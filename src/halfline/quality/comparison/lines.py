"""What a comparison has found so far, as JSON lines: a run that was ended goes on from them.

The first line says what the run is: both configurations, the model, the tasks, the margins. Lines of another run are
never taken for this one's, nor is anything changed about a run after its first line was written. A torn last line is
what a process leaves that was killed: its task is done again.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from halfline.errors import BadSettings

Key = tuple[str, str]
"""What was done (`forced`, `baseline`, `candidate`), and of which task."""


class Lines:
    """A context manager; appends to the file, or keeps all in memory. Raises BadSettings for another run's file."""

    def __init__(self, path: Path | None, run: Mapping[str, object]) -> None:
        """`run`: everything that results depend on, as JSON data."""
        self._path = path
        self._run = json.loads(json.dumps(run))
        self._known: dict[Key, Mapping[str, Any]] = {}
        self._file: TextIO | None = None

    def __enter__(self) -> "Lines":
        if self._path is None:
            return self
        try:
            kept = self._path.read_bytes() if self._path.exists() else b""
            begun = self._take(kept)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise BadSettings(f"results cannot be kept in {self._path}: {error}") from error
        if kept and not kept.endswith(b"\n"):
            self._file.write("\n")
        if not begun:
            self._write({"run": self._run})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def find(self, key: Key) -> Mapping[str, Any] | None:
        return self._known.get(key)

    def keep(self, key: Key, line: Mapping[str, object]) -> None:
        self._known[key] = line
        self._write({"what": key[0], "task": key[1], **line})

    def _take(self, kept: bytes) -> bool:
        """Whether the file says which run it is. What stands before that may be anybody's."""
        begun = False
        for line in _whole(kept):
            if "run" in line:
                if line["run"] != self._run:
                    named = ", ".join(_differences(line["run"], self._run))
                    raise BadSettings(f"{self._path} holds another run, which differs in {named}")
                begun = True
            elif begun and isinstance(line.get("what"), str) and isinstance(line.get("task"), str):
                self._known[line["what"], line["task"]] = line
        return begun

    def _write(self, line: Mapping[str, object]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


def _whole(kept: bytes) -> Iterator[dict[str, Any]]:
    for line in kept.decode(errors="replace").splitlines():
        try:
            read = json.loads(line)
        except (ValueError, RecursionError):
            continue  # torn
        if isinstance(read, dict):
            yield read


def _differences(one: object, other: Mapping[str, object]) -> Iterator[str]:
    known = one if isinstance(one, Mapping) else {}
    yield from (name for name in sorted({*known, *other}) if known.get(name) != other.get(name))
