"""Fills every hole of a suite with one arm; each result is kept as a line of JSON, and a run can be gone on with."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from halfline.quality.infilling.sandbox import Verdict
from halfline.quality.infilling.scores import Score, score
from halfline.quality.infilling.suites import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What an arm put into a hole, and what that took."""

    text: str
    ms: float
    computed_tokens: int


@dataclass(frozen=True, slots=True)
class Result:
    task: Task
    filled: Filled
    score: Score


Fill = Callable[[Task], Awaitable[Filled]]
Judge = Callable[[str], Verdict]


class Record:
    """A file of results by arm and task. Only lines of the same arm count; a torn last line is done again."""

    def __init__(self, path: Path | None, arm: Mapping[str, object]) -> None:
        """`path` None keeps nothing. `arm`: everything that the results depend on, as JSON data."""
        self._path = path
        self._arm = json.dumps(arm, sort_keys=True)

    def known(self) -> dict[str, Mapping[str, Any]]:
        """Lines by task id."""
        if self._path is None or not self._path.exists():
            return {}
        lines = self._path.read_text("utf-8").splitlines()
        return {line["task"]: line for line in _whole(lines) if line.get("arm") == self._arm}

    def open(self) -> TextIO | None:
        if self._path is None:
            return None
        self._path.parent.mkdir(parents=True, exist_ok=True)
        kept = self._path.read_bytes() if self._path.exists() else b""
        file = self._path.open("a", encoding="utf-8")
        if kept and not kept.endswith(b"\n"):
            file.write("\n")
        return file

    def line(self, result: Result) -> str:
        return json.dumps(
            {"arm": self._arm, "task": result.task.id, **asdict(result.filled), **asdict(result.score)}
        )


async def fill_all(
    tasks: Sequence[Task],
    fill: Fill,
    judge: Judge,
    record: Record,
    num_at_once: int,
    advanced: Callable[[int], None] = lambda num_tasks: None,
) -> list[Result]:
    """Results in the tasks' order; those on record are not asked for again. What `fill` raises ends the run."""
    known = record.known()
    file = record.open()
    turns = asyncio.Semaphore(num_at_once)

    async def one(task: Task) -> Result:
        async with turns:
            if task.id in known:
                result = _restored(task, known[task.id])
            else:
                result = await _judged(task, await fill(task), judge)
                if file is not None:
                    file.write(record.line(result) + "\n")
                    file.flush()
        advanced(1)
        return result

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(task)) for task in tasks]
    finally:
        if file is not None:
            file.close()
    return [each.result() for each in running]


async def _judged(task: Task, filled: Filled, judge: Judge) -> Result:
    program = task.program(filled.text)
    passed = None if program is None else await asyncio.to_thread(judge, program) == "passed"
    return Result(task, filled, score(task, filled.text, passed=passed))


def _restored(task: Task, line: Mapping[str, Any]) -> Result:
    filled = Filled(text=line["text"], ms=line["ms"], computed_tokens=line["computed_tokens"])
    return Result(task, filled, score(task, filled.text, passed=line["passed"]))


def _whole(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            read = json.loads(line)
        except ValueError:
            continue  # torn when a run was ended
        if isinstance(read, dict):
            yield read
