"""The published sets are read as they are, and what belonged into a hole passes its tests."""

import gzip
import json
from pathlib import Path

import pytest

from halfline.quality.infilling.sandbox import run_program
from halfline.quality.infilling.suites import SUITES, Suite, load

_DATA = Path(__file__).parents[4] / "bench" / "data"


@pytest.mark.parametrize(
    ("suite", "number"), [("single-line", 1033), ("random-span", 164), ("safim-api", 310)]
)
def test_every_task_has_a_hole_with_something_that_belongs_there(suite: Suite, number: int) -> None:
    tasks = load(_DATA, suite)
    assert len(tasks) == number == len({task.id for task in tasks})
    assert all(task.wanted and task.prefix + task.suffix for task in tasks)


@pytest.mark.parametrize("suite", ["single-line", "random-span"])
def test_what_belongs_there_passes_and_nothing_does_not(suite: Suite) -> None:
    for task in load(_DATA, suite, 3):
        program, without = task.program(task.wanted), task.program("")
        assert program is not None and without is not None
        assert run_program(program) == "passed", task.id
        assert run_program(without) != "passed", task.id


def test_a_call_in_another_language_is_not_run() -> None:
    assert {task.program("x") for task in load(_DATA, "safim-api", 5)} == {None}


def test_fewer_tasks_are_spread_over_all() -> None:
    everything = load(_DATA, "random-span")
    assert load(_DATA, "random-span", 4) == [everything[i] for i in (0, 41, 82, 123)]
    assert load(_DATA, "random-span", 10**6) == everything


def test_a_file_that_is_not_as_published_is_refused_in_words(tmp_path: Path) -> None:
    for suite in SUITES:
        with pytest.raises(OSError):
            load(tmp_path, suite)
    odd = tmp_path / "safim_api.jsonl.gz"
    for data in (b"no gzip", gzip.compress(json.dumps({"lang": "python"}).encode()), gzip.compress(b"{")):
        odd.write_bytes(data)
        with pytest.raises(ValueError):
            load(tmp_path, "safim-api")
