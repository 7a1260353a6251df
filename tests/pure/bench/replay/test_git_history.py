"""Commits become keystrokes that lead from each version of a file to the next."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.bench.replay.git_history import history, most_changed, strokes, typed
from halfline.bench.replay.trace import Edit, applied

_TEXTS = st.text(alphabet="ab \n\tß", max_size=60)


@given(_TEXTS, _TEXTS)
def test_the_keystrokes_lead_from_the_old_text_to_the_new_one(old: str, new: str) -> None:
    text = old
    for transaction in typed(old, new):
        text = applied(text, transaction)
    assert text == new


def test_text_that_goes_goes_at_once_and_text_that_comes_is_typed() -> None:
    assert list(typed("one\ntwo\nthree\n", "one\nten\nthree\n")) == [
        (Edit(5, 2, ""),),
        (Edit(5, 0, "e"),),
        (Edit(6, 0, "n"),),
    ]


def test_a_new_line_brings_its_indentation() -> None:
    assert list(strokes("if x:\n    y")) == ["i", "f", " ", "x", ":", "\n    ", "y"]


def _git(repository: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    subprocess.run(["git", "-C", str(repository), *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    _git(tmp_path, "init", "-q")
    for number, text in enumerate(["x = 1\n", "x = 1\ny = 2\n", None, "x = 3\n"]):
        if text is None:
            _git(tmp_path, "rm", "-q", "a.py")
        else:
            (tmp_path / "a.py").write_text(text)
        (tmp_path / "b.py").write_text("once\n")
        _git(tmp_path, "add", "-A")
        _git(tmp_path, "commit", "-q", "-m", str(number))
    return tmp_path


def test_a_files_history_ends_with_its_last_version_deleted_ones_left_out(repository: Path) -> None:
    trace = history(repository, "a.py")
    text = trace.start
    for transaction in trace.transactions:
        text = applied(text, transaction)
    assert text == "x = 3\n"


def test_the_file_with_the_most_commits_comes_first(repository: Path) -> None:
    assert most_changed(repository, 5) == ["a.py", "b.py"]
    assert most_changed(repository, 1) == ["a.py"]


def test_what_git_does_not_know_is_refused_in_words(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.raises(ValueError, match=r"has a file c\.py"):
        history(repository, "c.py")
    with pytest.raises(ValueError, match="git log in"):
        history(tmp_path_factory.mktemp("empty"), "a.py")
