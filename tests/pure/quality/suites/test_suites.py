"""Suites are the published files and no others; a repository's holes are the same for the same seed."""

import datetime
import gzip
import json
import os
from pathlib import Path

import pytest

from halfline.cli.quality_suites import load_suites
from halfline.document.syntax_tree import PYTHON, parse
from halfline.errors import BadSettings
from halfline.quality.suites.own import repository_tasks
from halfline.quality.suites.published import SOURCES, checked_file, published_tasks
from halfline.quality.suites.spread import spread

DATA = Path(__file__).parents[4] / "bench" / "data"


@pytest.mark.parametrize("name", SOURCES)
def test_every_set_is_the_file_that_was_published_and_names_its_licence(name: str) -> None:
    assert checked_file(DATA, name).exists()
    assert SOURCES[name].licence


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / SOURCES["safim-api"].file
    file.write_bytes(gzip.compress(b""))
    with pytest.raises(ValueError, match="not as it was published"):
        published_tasks(tmp_path, "safim-api")


REPOSITORY = [name for name in SOURCES if name.startswith("repository")]


def test_packages_of_all_repository_suites_are_younger_than_the_model_and_permit_their_use() -> None:
    suites = [
        json.loads(gzip.decompress(checked_file(DATA, name).read_bytes()))["packages"] for name in REPOSITORY
    ]
    assert len(suites) == 3 and min(map(len, suites)) >= 5
    packages = [package for suite in suites for package in suite]
    assert len({package["name"] for package in packages}) == len(packages)
    for package in packages:
        released = datetime.date.fromisoformat(package["first_release"])
        assert released > datetime.date(2024, 11, 30)
        assert package["licence"] in ("MIT", "Apache-2.0") and len(package["licence_text"]) > 500
        assert len(package["wheel_sha256"]) == 64


@pytest.mark.parametrize("suite", REPOSITORY)
def test_a_repository_hole_begins_with_a_name_that_another_file_defines_and_hardly_ever_its_own_as_well(
    suite: str,
) -> None:
    tasks = published_tasks(DATA, suite)
    assert len(tasks) >= 150 and len({task.id for task in tasks}) == len(tasks)
    own = 0
    for task in tasks:
        name = task.id.rpartition(":")[2]
        (part,) = task.parts
        defines = (f"def {name}(", f"class {name}(", f"class {name}:", f"def {name}[", f"class {name}[")
        assert task.wanted.startswith(name)
        assert any(each in part.text for each in defines)
        assert part.path != task.path
        own += any(each in task.prefix + task.suffix for each in defines)
    assert own <= 1
    tree = parse(f"{tasks[0].prefix}{tasks[0].wanted}{tasks[0].suffix}".encode(), PYTHON)
    assert tree is not None and not tree.root_node.has_error


def test_what_others_wrote_is_not_ones_own_repository(tmp_path: Path) -> None:
    text = "def area(width, height):\n    return width * height\n\n\n" * 10
    for path in ("shop/area.py", ".venv/lib/a.py", "shop/node_modules/b.js", "build/c.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / os.fsdecode(b"\xff.py")).write_text(text)
    assert {task.path for task in repository_tasks(tmp_path, seed=1)} == {"shop/area.py"}


def test_ones_own_repository_is_cut_the_same_way_every_time(tmp_path: Path) -> None:
    lines = "\n".join(f"    total_{number} = compute(total, {number})" for number in range(40))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one.py").write_text(f"def f(total):\n{lines}\n    return total\n")
    (tmp_path / "two.py").write_text(f"class C:\n{lines}\n")
    first = repository_tasks(tmp_path, seed=3)
    assert first == repository_tasks(tmp_path, seed=3) != repository_tasks(tmp_path, seed=4)
    assert {task.problem for task in first} == {"deep/one.py", "two.py"}
    for task in first:
        whole = task.prefix + task.wanted + task.suffix
        assert whole == (tmp_path / task.problem).read_text()


def test_suites_say_what_they_are_and_what_is_wrong_with_them(tmp_path: Path) -> None:
    suites = load_suites(["texts", "trace"], DATA, limit=3, seed=1)
    assert len(suites.tasks) == 6
    assert suites.about["trace"]["licence"] == "CC-BY-4.0"  # type: ignore[index]
    for names, sentence in (
        (["x"], "none by this name"),
        ([], "nothing to compare"),
        (["texts"] * 2, "twice"),
    ):
        with pytest.raises(BadSettings, match=sentence):
            load_suites(names, DATA, limit=2, seed=1)
    with pytest.raises(BadSettings, match="no source files"):
        load_suites([], DATA, limit=2, seed=1, repository=tmp_path)


def test_some_of_many_are_evenly_spread() -> None:
    assert spread(range(10), 5) == [0, 2, 4, 6, 8]
    assert spread(range(3), 5) == spread(range(3), None) == [0, 1, 2]
