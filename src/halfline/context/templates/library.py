"""All tasks there are: those that come with the package, and a directory of the user's own.

    DIRECTORY/unit-tests/1.toml        a version of a task, called by its folder's and its file's name
    DIRECTORY/unit-tests/2.toml

A file of the user's stands for the package's of the same name and version. Files may come, change and go while a server
runs. One that cannot be used is told of (`problems`) and left out; it takes no other with it.
"""

import errno
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from halfline.context.templates.task_template import MAX_FILE_BYTES, TaskTemplate, read_template
from halfline.errors import BadTemplate, UnknownTask
from halfline.telemetry.log import fields

_log = logging.getLogger(__name__)

BUILT_IN = Path(__file__).parent / "builtin"

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}", re.ASCII)

_MAX_FILES = 1024
_LOOK_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Task:
    """The versions of one task, by their names, at least one."""

    name: str
    versions: Mapping[str, TaskTemplate]

    def version(self, name: str) -> TaskTemplate:
        """Raises UnknownTask."""
        if name not in self.versions:
            raise UnknownTask(f"{self.name}/{name[:64]}", [f"{self.name}/{each}" for each in self.versions])
        return self.versions[name]


class TaskLibrary:
    """`directory` None: only what comes with the package. Safe to share among threads."""

    def __init__(self, directory: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._clock = clock
        self._looked_at: float | None = None  # None: never
        self._state: object = None
        self._tasks: Mapping[str, Task] = {}
        self._problems: Sequence[BadTemplate] = ()

    def tasks(self) -> Mapping[str, Task]:
        """By name, in the order of their names; looked for again at most once a second."""
        now = self._clock()
        if self._looked_at is None or now - self._looked_at >= _LOOK_AGAIN_S:
            state = self._directory_state()
            if self._looked_at is None or state != self._state:
                self._tasks, self._problems = self._read()
                self._state = state
            self._looked_at = now
        return self._tasks

    def problems(self) -> Sequence[BadTemplate]:
        """What was left out when the tasks were last read, and why."""
        self.tasks()
        return self._problems

    def task(self, name: str) -> Task:
        """Raises UnknownTask."""
        tasks = self.tasks()
        if name not in tasks:
            raise UnknownTask(name[:64], list(tasks))
        return tasks[name]

    def _directory_state(self) -> object:
        """What changes when a file does."""
        if self._directory is None:
            return None
        state = []
        for path in _template_files(self._directory):
            try:
                status = path.stat()
            except OSError:  # it is just going
                continue
            state.append((path, status.st_mtime_ns, status.st_size))
        return state

    def _read(self) -> tuple[Mapping[str, Task], Sequence[BadTemplate]]:
        files: dict[str, dict[str, bytes]] = {}
        problems: list[BadTemplate] = []
        for directory in (BUILT_IN, self._directory):
            for path in () if directory is None else _template_files(directory):
                try:
                    _read_into(files, path)
                except BadTemplate as error:
                    problems.append(error)
        tasks = {}
        for name, by_version in sorted(files.items()):
            versions = {}
            for version, data in sorted(by_version.items()):
                try:
                    versions[version] = read_template(name, version, data, by_version)
                except BadTemplate as error:
                    problems.append(error)
                except Exception as error:  # a mistake of ours, and one of this file's alone
                    _log.exception("task template cannot be read", extra=fields(template=f"{name}/{version}"))
                    problems.append(BadTemplate(f"{name}/{version}", f"it cannot be read: {error!r}"))
            if versions:
                tasks[name] = Task(name, versions)
        for problem in problems:
            _log.warning("task template left out", extra=fields(template=problem.name, reason=problem.reason))
        return tasks, problems


def begin_template(directory: Path, name: str, version: str, like: Task) -> Path:
    """A new file with the first version of another task in it; its path. Raises BadTemplate."""
    if not NAME.fullmatch(name) or not NAME.fullmatch(version):
        raise BadTemplate(f"{name}/{version}", "tasks and versions are called a, b-2, …")
    path = directory / name / f"{version}.toml"
    source = next(iter(like.versions.values()))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(source.source)
    except FileExistsError:
        raise BadTemplate(f"{name}/{version}", f"{path} is there already") from None
    except OSError as error:
        raise BadTemplate(f"{name}/{version}", f"{path} cannot be written: {error.strerror}") from None
    return path


def _template_files(directory: Path) -> Iterator[Path]:
    """Files of versions in folders of tasks, no more than there may be; nothing where there is no directory."""
    paths = sorted(directory.glob("*/*.toml"))
    yield from paths[:_MAX_FILES]


def _read_into(files: dict[str, dict[str, bytes]], path: Path) -> None:
    """Raises BadTemplate."""
    task, version = path.parent.name, path.stem
    if not NAME.fullmatch(task) or not NAME.fullmatch(version):
        raise BadTemplate(str(path), "folder and file must be called a, b-2, …")
    try:
        data = _read_regular(path)
    except OSError as error:
        raise BadTemplate(str(path), f"it cannot be read: {error.strerror}") from None
    files.setdefault(task, {})[version] = data


def _read_regular(path: Path) -> bytes:
    """One byte more than a template may have at most. Raises OSError; also where reading could wait for somebody, as of
    a pipe, or open a device.
    """
    _check_regular(path.stat())
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        _check_regular(os.fstat(file.fileno()))  # it may be another by now
        return file.read(MAX_FILE_BYTES + 1)


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "no regular file")
