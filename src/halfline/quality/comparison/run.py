"""Does every task of a comparison, in three passes: both arms teacher forced, the baseline's answers, the candidate's.

Whatever is known already is not done again, and what was done is kept at once. Memory: both models, and the logits of
one task.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from halfline.quality.comparison.case import Answer, Case, in_cluster, scores_from_record, scores_record
from halfline.quality.comparison.lines import Lines
from halfline.quality.divergence import compare_rows
from halfline.quality.infilling.sandbox import Verdict
from halfline.quality.infilling.suites import Task

Pass = Literal["forced", "baseline", "candidate"]
PASSES: tuple[Pass, ...] = ("forced", "baseline", "candidate")
Advanced = Callable[[Pass], None]
"""Hears of each task that a pass is done with."""


class Side(Protocol):
    """What a comparison asks of an arm (comparison/arm.py)."""

    async def true_ids(self, task: Task) -> list[int]: ...
    async def logits(self, task: Task, true_ids: Sequence[int]) -> NDArray[np.float32]: ...
    def start(self) -> None: ...
    async def answer(self, task: Task) -> Answer: ...
    def close(self) -> None: ...


MakeSide = Callable[[], Side]


async def compare(
    tasks: Sequence[Task],
    make_baseline: MakeSide,
    make_candidate: MakeSide,
    judge: Callable[[str], Verdict],
    lines: Lines,
    *,
    num_at_once: int = 4,
    advanced: Advanced = lambda done: None,
) -> list[Case]:
    """Cases in the tasks' order. An arm is made when there is something to ask it, once. What it raises ends the run;
    `judge` runs programs that a model wrote.
    """
    baseline, candidate = cache(make_baseline), cache(make_candidate)
    for task in tasks:
        if not _is_known("forced", task, lines):
            lines.keep(("forced", task.id), await _forced(task, baseline(), candidate()))
        advanced("forced")
    await _answers("baseline", baseline, tasks, judge, lines, num_at_once, advanced)
    await _answers("candidate", candidate, tasks, judge, lines, num_at_once, advanced)
    files: dict[str, int] = {}
    return [_case(task, lines, files.setdefault(task.problem, len(files))) for task in tasks]


def _is_known(name: Pass, task: Task, lines: Lines) -> bool:
    """A line that lacks something is as good as none."""
    line = lines.find((name, task.id))
    if line is None:
        return False
    try:
        scores_from_record(line) if name == "forced" else Answer.from_record(line)
    except (KeyError, TypeError, ValueError):
        return False
    return True


async def _forced(task: Task, baseline: Side, candidate: Side) -> dict[str, object]:
    true_ids = await baseline.true_ids(task)
    if not true_ids:  # nothing belongs there, so no token of it can be expected
        nothing = np.empty((0, 1), np.float32)
        return scores_record(compare_rows(nothing, nothing, np.array([], np.int32), 0))
    right = await baseline.logits(task, true_ids)
    judged = await candidate.logits(task, true_ids)
    return scores_record(compare_rows(right, judged, np.array(true_ids, np.int32), 0))


async def _answers(
    name: Pass,
    make: MakeSide,
    tasks: Sequence[Task],
    judge: Callable[[str], Verdict],
    lines: Lines,
    num_at_once: int,
    advanced: Advanced,
) -> None:
    turns = asyncio.Semaphore(num_at_once)

    async def one(task: Task, side: Side) -> None:
        async with turns:
            lines.keep((name, task.id), (await _judged(task, side.answer(task), judge)).record())
        advanced(name)

    missing = [task for task in tasks if not _is_known(name, task, lines)]
    for _ in range(len(tasks) - len(missing)):
        advanced(name)
    if not missing:
        return
    side = make()
    side.start()
    try:
        async with asyncio.TaskGroup() as group:
            for task in missing:
                group.create_task(one(task, side))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed  # the others follow from it, or say the same
    finally:
        await asyncio.to_thread(side.close)


async def _judged(task: Task, answering: Awaitable[Answer], judge: Callable[[str], Verdict]) -> Answer:
    answer = await answering
    program = task.program(answer.text)
    if program is None:
        return answer
    return replace(answer, passed=await asyncio.to_thread(judge, program) == "passed")


def _case(task: Task, lines: Lines, cluster: int) -> Case:
    forced, baseline, candidate = (lines.find((name, task.id)) for name in PASSES)
    assert forced is not None and baseline is not None and candidate is not None, "every pass has ended"
    return Case(
        task=task,
        scores=in_cluster(scores_from_record(forced), cluster),
        baseline=Answer.from_record(baseline),
        candidate=Answer.from_record(candidate),
    )
