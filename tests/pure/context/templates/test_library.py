"""All tasks: the package's own, the user's over them, and files that come and go."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from halfline.context.templates.library import TaskLibrary, begin_template
from halfline.context.templates.task_template import TaskTemplate, read_template
from halfline.errors import BadTemplate, UnknownTask

MINE = 'summary = "x"\ntask = "Do."\ninput = "do"\n'


class Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += 2.0
        return self.now


def write(directory: Path, name: str, text: str = MINE) -> None:
    path = directory / f"{name}.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_every_task_that_comes_along_can_be_used_and_has_words_to_find_it_by() -> None:
    library = TaskLibrary()
    assert not library.problems()
    assert {"commit-message", "docstring", "explain", "refactor", "sql-to-python", "unit-tests"} <= set(
        library.tasks()
    )
    for task in library.tasks().values():
        assert any(template.weight > 0 for template in task.versions.values())
        assert all(template.asked_as and template.placeholders.names for template in task.versions.values())


def test_the_users_files_stand_beside_the_packages_and_for_them(tmp_path: Path) -> None:
    for name in ("mine/1", "explain/1", "explain/short"):
        write(tmp_path, name)
    tasks = TaskLibrary(tmp_path).tasks()
    assert list(tasks["mine"].versions) == ["1"]
    assert list(tasks["explain"].versions) == ["1", "short"]
    assert tasks["explain"].versions["1"].task == "Do."


def test_a_broken_file_is_told_of_and_takes_no_other_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "mine/1", "summary = 1")
    write(tmp_path, "mine/2")
    write(tmp_path, "Mine/1")
    (tmp_path / "dir" / "1.toml").mkdir(parents=True)
    library = TaskLibrary(tmp_path)
    assert list(library.task("mine").versions) == ["2"]
    assert len(library.problems()) == len(caplog.records) == 3
    assert {record.message for record in caplog.records} == {"task template left out"}


@pytest.mark.parametrize(
    "line",
    [
        "weight = 0x" + "f" * 5000,
        "max_tokens = 0x" + "f" * 5000,
        'placeholders = { required = [["a"]] }',
        "few_shot = [{ placeholders = { a = 0x" + "f" * 5000 + ' }, output = "" }]\n'
        "placeholders = { properties = { a = {} } }",
    ],
    ids=["weight", "max_tokens", "required", "few_shot"],
)
def test_no_value_in_a_file_takes_the_others_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: str
) -> None:
    write(tmp_path, "mine/1", MINE + line)
    write(tmp_path, "mine/2")
    library = TaskLibrary(tmp_path)
    assert list(library.task("mine").versions) == ["2"]
    assert all(version.parts for task in library.tasks().values() for version in task.versions.values())
    assert [problem.name for problem in library.problems()] == ["mine/1"]
    assert len(caplog.records) == 1


def test_a_mistake_of_ours_about_one_file_takes_no_other_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(name: str, version: str, data: bytes, bases: Mapping[str, bytes]) -> TaskTemplate:
        if name == "mine":
            raise ZeroDivisionError
        return read_template(name, version, data, bases)

    write(tmp_path, "mine/1")
    monkeypatch.setattr("halfline.context.templates.library.read_template", mistaken)
    library = TaskLibrary(tmp_path)
    assert "explain" in library.tasks()
    assert "mine" not in library.tasks()
    assert "ZeroDivisionError" in str(library.problems()[0])
    assert caplog.records[0].exc_info


def test_what_is_no_regular_file_is_left_out_and_not_waited_for(tmp_path: Path) -> None:
    write(tmp_path, "mine/2")
    os.mkfifo(tmp_path / "mine" / "1.toml")
    (tmp_path / "mine" / "3.toml").symlink_to("/dev/zero")
    library = TaskLibrary(tmp_path)
    assert list(library.task("mine").versions) == ["2"]
    assert [problem.reason for problem in library.problems()] == ["it cannot be read: no regular file"] * 2


def test_files_may_come_change_and_go(tmp_path: Path) -> None:
    library = TaskLibrary(tmp_path / "not" / "there", Clock())
    assert "mine" not in library.tasks()
    directory = tmp_path / "not" / "there"
    directory.mkdir(parents=True)
    write(directory, "mine/1")
    first = library.tasks()
    assert first["mine"].versions["1"].task == "Do."
    assert library.tasks() is first
    write(directory, "mine/1", MINE.replace("Do.", "Do it well."))
    assert library.task("mine").version("1").task == "Do it well."
    (directory / "mine" / "1.toml").unlink()
    with pytest.raises(UnknownTask, match="no task 'mine'; there are commit-message"):
        library.task("mine")


def test_an_unknown_version_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownTask, match="unit-tests/1, unit-tests/2"):
        TaskLibrary().task("unit-tests").version("3")


def test_a_new_template_is_a_copy_that_can_be_used_and_nothing_is_overwritten(tmp_path: Path) -> None:
    path = begin_template(tmp_path, "mine", "1", TaskLibrary().task("explain"))
    assert (
        TaskLibrary(tmp_path).task("mine").version("1").digest
        == TaskLibrary().task("explain").version("1").digest
    )
    path.write_text(MINE, encoding="utf-8")
    for name in ("mine", "../mine", ""):
        with pytest.raises(BadTemplate):
            begin_template(tmp_path, name, "1", TaskLibrary().task("explain"))
    assert path.read_text(encoding="utf-8") == MINE
