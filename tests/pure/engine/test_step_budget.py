"""Rows per step are learned: from a fixed part and a slope, by context, past accidents."""

import pytest

from halfline.engine.step_budget import StepBudget


@pytest.mark.parametrize(("fixed_ms", "row_ms"), [(0.0, 1.0), (4.0, 1.0), (10.0, 0.25), (2.0, 1.6)])
def test_steps_settle_at_the_time_they_may_take(fixed_ms: float, row_ms: float) -> None:
    budget = StepBudget(step_ms=30.0)
    for _ in range(60):
        rows = budget.max_rows(0)
        budget.learn(rows, 0.0, fixed_ms + row_ms * rows)
    assert fixed_ms + row_ms * budget.max_rows(0) == pytest.approx(30.0, rel=0.06)


def test_a_slow_machine_still_computes_a_block() -> None:
    budget = StepBudget(step_ms=30.0)
    budget.learn(64, 0.0, 6400.0)
    assert budget.max_rows(0) == 16


def test_rows_with_more_before_them_are_fewer_and_an_unknown_context_is_taken_for_the_nearest_below() -> None:
    budget = StepBudget(step_ms=30.0)
    budget.learn(32, 100.0, 32.0)
    budget.learn(32, 2100.0, 64.0)
    assert budget.max_rows(0) == budget.max_rows(1000) == 30
    assert budget.max_rows(2100) == budget.max_rows(8000) == 16
    later = StepBudget(step_ms=30.0)
    later.learn(32, 2100.0, 48.0)
    assert later.max_rows(0) == 20


def test_one_step_that_the_machine_interrupted_changes_little_and_lasting_news_much() -> None:
    budget = StepBudget(step_ms=30.0)
    for _ in range(20):
        budget.learn(32, 0.0, 32.0)
    budget.learn(32, 0.0, 5000.0)
    assert budget.max_rows(0) == 20
    for _ in range(40):
        budget.learn(32, 0.0, 16.0)
    assert budget.max_rows(0) == pytest.approx(60, abs=2)


def test_a_clock_that_did_not_move_teaches_nothing() -> None:
    budget = StepBudget(step_ms=30.0)
    budget.learn(32, 0.0, 0.0)
    assert budget.max_rows(0) == 64
