"""A download, as a bar on the terminal."""

from types import TracebackType

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


class PullProgress:
    """Draws on standard error while it is entered; call it as `model.pull.Progress`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._tasks: dict[Stage, TaskID] = {}

    def __enter__(self) -> "PullProgress":
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def __call__(self, stage: Stage, done_bytes: int, total_bytes: int | None) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(f"{self._name}: {_WORDS[stage]}", total=total_bytes)
        self._bars.update(self._tasks[stage], completed=done_bytes, total=total_bytes)
