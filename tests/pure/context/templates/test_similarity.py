"""Free text finds its template by inner products of normalised vectors."""

import numpy as np
import pytest
from numpy.typing import NDArray

from halfline.api.task_prompts import SURE
from halfline.cache.embedding import StaticVectors
from halfline.context.templates.library import TaskLibrary
from halfline.context.templates.similarity import TaskFinder, flat_index

ASKED = {
    "please write tests for my parser": "unit-tests",
    "can you generate unit test cases": "unit-tests",
    "convert this SQL to pandas": "sql-to-python",
    "sqlalchemy version of this query please": "sql-to-python",
    "document the function": "docstring",
    "write javadoc": "docstring",
    "what is this code doing?": "explain",
    "explain": "explain",
    "simplify this method": "refactor",
    "refactoring to make it readable": "refactor",
    "commit message for my diff": "commit-message",
    "why does it crash": "fix-error",
    "debug the exception": "fix-error",
    "annotate with type hints": "type-hints",
    "review my change": "review",
}
NOT_ASKED = (
    "hello",
    "what is the weather in Rome",
    "order a pizza",
    "",
    "1234",
    "sing me a song",
    "who are you",
)


@pytest.fixture(scope="module")
def finder() -> TaskFinder:
    return TaskFinder(list(TaskLibrary().tasks().values()))


@pytest.mark.parametrize(("text", "task"), ASKED.items())
def test_words_that_people_use_find_the_task_and_are_sure(finder: TaskFinder, text: str, task: str) -> None:
    best = finder.find(text)[0]
    assert best.task == task
    assert best.similarity >= SURE


@pytest.mark.parametrize("text", NOT_ASKED)
def test_words_about_something_else_are_like_no_task(finder: TaskFinder, text: str) -> None:
    assert finder.find(text)[0].similarity < SURE


def test_every_task_is_found_by_what_it_says_of_itself(finder: TaskFinder) -> None:
    for task in TaskLibrary().tasks().values():
        for template in task.versions.values():
            for said in (template.summary, *template.asked_as):
                best = finder.find(said)[0]
                assert best.similarity == pytest.approx(1.0, abs=1e-5)


def test_all_tasks_are_ranked_and_a_learned_embedding_can_take_the_place_of_words() -> None:
    class ByLength:
        def embed(self, text: str) -> NDArray[np.float32]:
            return np.array([np.cos(len(text)), np.sin(len(text))], np.float32)

    tasks = list(TaskLibrary().tasks().values())
    found = TaskFinder(tasks, ByLength()).find("x" * len("docstring"))
    assert (found[0].task, len(found)) == ("docstring", len(tasks))
    assert found[0].similarity == pytest.approx(1.0)


def test_the_index_gives_the_inner_products_in_the_rows_order() -> None:
    rows = np.random.default_rng(1).normal(size=(40, 7)).astype(np.float32)
    vector = rows[3] * np.float32(2)
    assert flat_index(rows)(vector) == pytest.approx(rows @ vector, rel=1e-5, abs=1e-5)


def test_the_learned_embedding_that_the_extra_brings_finds_the_tasks_too() -> None:
    finder = TaskFinder(list(TaskLibrary().tasks().values()), StaticVectors())
    for text, task in ASKED.items():
        best = finder.find(text)[0]
        assert (best.task, best.similarity >= SURE) == (task, True), text
    for text in NOT_ASKED:
        assert finder.find(text)[0].similarity < SURE, text


def test_without_tasks_nothing_is_found() -> None:
    assert TaskFinder([]).find("x") == []
