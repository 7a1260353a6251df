"""Bytes that are fetched or read, as a bar on the terminal. Drawn on standard error while it is entered."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from halfline.model.pull import Stage

_WORDS: dict[Stage, str] = {
    "wait": "another process is fetching it, waiting",
    "download": "downloading",
    "extract": "unpacking and checking",
}


class _Bars:
    def __init__(self) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()


class PullProgress(_Bars):
    """Call it as `model.pull.Progress`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._tasks: dict[Stage, TaskID] = {}

    def __call__(self, stage: Stage, done_bytes: int, total_bytes: int | None) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(f"{self._name}: {_WORDS[stage]}", total=total_bytes)
        self._bars.update(self._tasks[stage], completed=done_bytes, total=total_bytes)


class HashProgress(_Bars):
    """Call it with every number of bytes that were read."""

    def __init__(self, name: str, total_bytes: int) -> None:
        super().__init__()
        self._task = self._bars.add_task(f"{name}: checking", total=total_bytes)

    def __call__(self, num_bytes: int) -> None:
        self._bars.advance(self._task, num_bytes)
