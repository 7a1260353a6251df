"""Rows per step are learned: fixed part and slope, by context, past accidents, in time but for one in twenty."""

import random

import pytest

from halfline.engine.step_budget import StepBudget

STEP_MS = 30.0


@pytest.mark.parametrize(
    ("fixed_ms", "row_ms"), [(0.0, 1.0), (4.0, 1.0), (10.0, 0.25), (2.0, 1.6), (4.0, 0.01)]
)
def test_steps_settle_at_the_time_they_may_take(fixed_ms: float, row_ms: float) -> None:
    budget = StepBudget()
    for _ in range(60):
        rows = budget.max_rows(0, STEP_MS)
        budget.learn(rows, 0.0, fixed_ms + row_ms * rows)
    assert fixed_ms + row_ms * budget.max_rows(0, STEP_MS) == pytest.approx(STEP_MS, rel=0.06)


def test_what_short_steps_took_is_not_taken_for_the_time_of_their_few_rows() -> None:
    budget = StepBudget()
    for _ in range(60):
        budget.learn(48, 0.0, 4.0 + 0.5 * 48)
        budget.learn(2, 0.0, 5.0)
    assert budget.max_rows(0, STEP_MS) == pytest.approx(52, abs=1)
    assert budget.max_rows(0, 4 * STEP_MS) == pytest.approx(232, abs=4)


def test_before_a_long_step_ran_short_ones_say_how_many_rows_there_is_time_for_at_least() -> None:
    budget = StepBudget()
    for _ in range(60):
        budget.learn(1, 0.0, 0.1)
    assert budget.max_rows(0, STEP_MS) == pytest.approx(300, abs=2)


@pytest.mark.parametrize("spread", [0.1, 0.3])
def test_on_an_unsteady_machine_nineteen_steps_in_twenty_are_in_time(spread: float) -> None:
    generator = random.Random(7)
    budget = StepBudget()
    taken = []
    for _ in range(4000):
        rows = budget.max_rows(0, STEP_MS)
        taken.append((4.0 + 0.5 * rows) * generator.lognormvariate(0.0, spread))
        budget.learn(rows, 0.0, taken[-1])
    late = sum(ms > STEP_MS for ms in taken) / len(taken)
    assert 0.02 < late < 0.08


def test_a_slow_machine_still_computes_a_block() -> None:
    budget = StepBudget()
    budget.learn(64, 0.0, 6400.0)
    assert budget.max_rows(0, STEP_MS) == 16


def test_rows_with_more_before_them_are_fewer_and_an_unknown_context_is_taken_for_the_nearest_below() -> None:
    budget = StepBudget()
    budget.learn(32, 100.0, 32.0)
    budget.learn(32, 2100.0, 32.0)
    for _ in range(60):
        budget.learn(32, 2100.0, 64.0)
    assert budget.max_rows(0, STEP_MS) == budget.max_rows(1000, STEP_MS) == pytest.approx(30, abs=1)
    assert budget.max_rows(2100, STEP_MS) == budget.max_rows(8000, STEP_MS) == 16
    later = StepBudget()
    later.learn(32, 2100.0, 48.0)
    assert later.max_rows(0, STEP_MS) == 20


def test_one_step_that_the_machine_interrupted_changes_little_and_lasting_news_much() -> None:
    budget = StepBudget()
    for _ in range(20):
        budget.learn(32, 0.0, 32.0)
    budget.learn(32, 0.0, 5000.0)
    assert 16 < budget.max_rows(0, STEP_MS) < 30
    for _ in range(60):
        budget.learn(32, 0.0, 16.0)
    assert budget.max_rows(0, STEP_MS) == pytest.approx(60, abs=2)


def test_a_clock_that_did_not_move_teaches_nothing() -> None:
    budget = StepBudget()
    budget.learn(32, 0.0, 0.0)
    assert budget.max_rows(0, STEP_MS) == 64
