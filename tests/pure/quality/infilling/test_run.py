"""Holes are filled once, judged, kept and not asked for again; two arms are compared hole by hole."""

import asyncio
from pathlib import Path

import pytest

from halfline.quality.infilling.report import compare, mean
from halfline.quality.infilling.run import Filled, Record, Result, fill_all
from halfline.quality.infilling.sandbox import Verdict
from halfline.quality.infilling.scores import Score, score
from halfline.quality.infilling.suites import Task


def _task(name: str, *, problem: str = "p", checks: str | None = "check()") -> Task:
    return Task(
        id=name,
        problem=problem,
        path="task.py",
        prefix="a = ",
        suffix="\nb",
        wanted=f"{name}  \nmore",
        single_line=False,
        checks=checks,
    )


def _judge(program: str) -> Verdict:
    return "passed" if "one" in program else "failed"


def _run(tasks: list[Task], record: Record) -> tuple[list[Result], list[str]]:
    asked: list[str] = []

    async def fill(task: Task) -> Filled:
        asked.append(task.id)
        await asyncio.sleep(0)
        return Filled(text=f"{task.id}\nmore ", ms=2.0, computed_tokens=3)

    return asyncio.run(fill_all(tasks, fill, _judge, record, 2)), asked


def test_answers_are_judged_in_the_tasks_order() -> None:
    results, asked = _run([_task("one"), _task("two"), _task("three", checks=None)], Record(None, {}))
    assert asked == ["one", "two", "three"]
    assert [result.score.passed for result in results] == [True, False, None]
    assert all(result.score.first_line and not result.score.exact for result in results)


def test_a_run_goes_on_where_it_ended_also_behind_a_torn_line(tmp_path: Path) -> None:
    file = tmp_path / "kept" / "results.jsonl"
    first, _ = _run([_task("one")], Record(file, {"x": 1}))
    with file.open("a") as torn:
        torn.write('{"task": "two", "te')
    again, asked = _run([_task("one"), _task("two")], Record(file, {"x": 1}))
    assert asked == ["two"] and again[0] == first[0]
    assert _run([_task("one"), _task("two")], Record(file, {"x": 1}))[1] == []


def test_another_arms_results_are_not_taken(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    _run([_task("one")], Record(file, {"x": 1}))
    assert _run([_task("one")], Record(file, {"x": 2}))[1] == ["one"]


def test_a_failure_to_fill_ends_the_run() -> None:
    async def fill(task: Task) -> Filled:
        raise RuntimeError("gone")

    with pytest.raises(ExceptionGroup):
        asyncio.run(fill_all([_task("one")], fill, _judge, Record(None, {}), 1))


def test_scores_leave_blanks_at_the_end_out() -> None:
    task = _task("x")
    assert score(task, "x  \nmore\n\n", passed=None) == Score(
        exact=True, first_line=True, similarity=1.0, passed=None
    )
    assert score(task, "y", passed=False).similarity == pytest.approx(0.0)
    assert score(task, "\n\nx ", passed=False).first_line


def test_arms_are_compared_on_the_same_holes_problem_by_problem() -> None:
    def results(passed: list[bool | None]) -> list[Result]:
        return [
            Result(
                _task(str(i), problem=f"p{i // 2}"),
                Filled(text="", ms=1.0, computed_tokens=1),
                Score(exact=bool(each), first_line=False, similarity=0.5, passed=each),
            )
            for i, each in enumerate(passed)
        ]

    before, after = results([True, False, False, None]), results([True, True, True, None])
    compared = compare(before, after, "pass@1")
    assert compared is not None and compared.interval is not None
    assert compared.baseline == pytest.approx(1 / 3) and compared.candidate == 1.0
    assert compared.interval.low <= 2 / 3 <= compared.interval.high
    assert mean(before, "pass@1") == pytest.approx(1 / 3) and mean(before[3:], "pass@1") is None
    assert compare(before[3:], after[3:], "pass@1") is None
    single = compare(before[:2], after[:2], "exact")
    assert single is not None and single.interval is None
