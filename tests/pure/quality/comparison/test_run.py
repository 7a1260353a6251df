"""A comparison that was ended goes on where it stopped and says the same; another run's results are refused."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from halfline.errors import BadSettings, EngineFailed
from halfline.quality.comparison.case import Answer, Case
from halfline.quality.comparison.lines import Lines
from halfline.quality.comparison.report import report_on
from halfline.quality.comparison.run import compare
from halfline.quality.infilling.suites import Task

TASKS = [
    Task(
        id=f"{file}{number}",
        problem=file,
        path=f"{file}.py",
        prefix="x = ",
        suffix="\n",
        wanted="y + 1",
        single_line=True,
        checks="check()" if file == "a" else None,
    )
    for file in "ab"
    for number in range(3)
]


class FakeSide:
    """Logits and answers by a task's name; counts what it was asked, and breaks at the task that it is told to."""

    def __init__(self, shift: float, breaks_at: str | None = None) -> None:
        self.shift = shift
        self.breaks_at = breaks_at
        self.asked: list[str] = []
        self.started = False

    async def true_ids(self, task: Task) -> list[int]:
        return [1, 2, 0]

    async def logits(self, task: Task, true_ids: Sequence[int]) -> np.ndarray:
        self._ask(task)
        seed = int.from_bytes(task.id.encode(), "little")
        logits = np.random.default_rng(seed).standard_normal((3, 4)).astype(np.float32)
        logits[:, 0] += self.shift
        return logits

    def start(self) -> None:
        self.started = True

    async def answer(self, task: Task) -> Answer:
        self._ask(task)
        text = "y + 1" if self.shift == 0 else f"y + {task.id}"
        return Answer(text=text, passed=None, prompt_tokens=5, computed_tokens=7, ms=1.5)

    def close(self) -> None:
        self.started = False

    def _ask(self, task: Task) -> None:
        if task.id == self.breaks_at and len(self.asked) > 6:
            raise EngineFailed(RuntimeError("it ended"))
        self.asked.append(task.id)


def run(path: Path | None, candidate: FakeSide, about: dict[str, object] | None = None) -> list[Case]:
    with Lines(path, about or {"model": "x"}) as lines:
        return asyncio.run(
            compare(
                TASKS,
                lambda: FakeSide(0.0),
                lambda: candidate,
                lambda program: "passed",
                lines,
                num_at_once=2,
            )
        )


def test_a_run_that_was_killed_goes_on_and_gives_the_same_report(tmp_path: Path) -> None:
    whole = report_on(run(None, FakeSide(1.0)))
    path = tmp_path / "kept" / "lines.jsonl"
    with pytest.raises(EngineFailed):
        run(path, FakeSide(1.0, breaks_at="b1"))
    with path.open("a") as torn:
        torn.write('{"what": "candidate", "task": "b2", "te')
    candidate = FakeSide(1.0)
    again = run(path, candidate)
    assert report_on(again) == whole
    assert set(candidate.asked) < {task.id for task in TASKS}
    idle = FakeSide(1.0)
    assert report_on(run(path, idle)) == whole
    assert idle.asked == []


def test_lines_that_say_nothing_are_done_again(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    whole = report_on(run(path, FakeSide(1.0)))
    with path.open("a") as file:
        for what in ("forced", "candidate"):
            file.write(f'{{"what": "{what}", "task": "b1"}}\n')
        file.write('{"what": [], "task": {}}\nnull\n3\n' + "[" * 100_000 + "\n")
    candidate = FakeSide(1.0)
    assert report_on(run(path, candidate)) == whole
    assert candidate.asked == ["b1", "b1"]


def test_lines_before_the_one_that_says_whose_they_are_are_nobody_s(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    run(path, FakeSide(0.0), {"model": "another"})
    header, *lines = path.read_text().splitlines(True)
    path.write_text(header[:5] + "\n" + "".join(lines))
    whole = report_on(run(None, FakeSide(1.0)))
    assert report_on(run(path, FakeSide(1.0))) == whole
    assert report_on(run(path, FakeSide(9.0))) == whole, "its own lines are known from then on"


def test_a_task_of_which_nothing_is_missing_has_no_token_to_judge() -> None:
    class NothingMissing(FakeSide):
        async def true_ids(self, task: Task) -> list[int]:
            return [] if task.id == "a1" else [1, 2, 0]

    with Lines(None, {}) as lines:
        cases = asyncio.run(
            compare(
                TASKS, lambda: NothingMissing(0.0), lambda: FakeSide(1.0), lambda program: "passed", lines
            )
        )
    assert [len(case.scores.kl) for case in cases] == [3, 0, 3, 3, 3, 3]
    assert report_on(cases).divergence.num_positions == 15


def test_a_run_is_never_gone_on_with_by_another(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    run(path, FakeSide(1.0), {"model": "x", "margins": {"mean_kl": 1e-3}})
    with pytest.raises(BadSettings, match="another run, which differs in margins"):
        run(path, FakeSide(1.0), {"model": "x", "margins": {"mean_kl": 1.0}})


def test_every_number_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    first = run(path, FakeSide(1e-9))
    second = run(path, FakeSide(0.0))  # not asked
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.scores.kl, other.scores.kl)
        assert one.candidate == other.candidate
    assert json.loads(path.read_text().splitlines()[0]) == {"run": {"model": "x"}}


def test_only_tasks_with_tests_are_run_and_files_are_clusters() -> None:
    cases = run(None, FakeSide(1.0))
    assert [case.baseline.passed for case in cases] == [True] * 3 + [None] * 3
    assert [set(case.scores.cluster.tolist()) for case in cases] == [{0}] * 3 + [{1}] * 3
    report = report_on(cases)
    assert report.quality["pass@1"].num_tasks == 3
    assert report.quality["exact"].candidate == 0.0
    assert report.fidelity["same"].value == 0.0
    assert report.divergence.num_positions == 18


def test_an_engine_is_ended_whatever_happens() -> None:
    candidate = FakeSide(1.0, breaks_at="b2")
    with pytest.raises(EngineFailed):
        run(None, candidate)
    assert not candidate.started
