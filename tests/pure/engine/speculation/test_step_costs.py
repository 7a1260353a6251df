"""The line through the steps' times is found, noise and accidents or not."""

import numpy as np
import pytest

from halfline.engine.speculation.step_costs import StepCosts


@pytest.mark.parametrize("slope", [0.01, 0.2, 2.0])
def test_the_cost_of_a_row_is_found_under_noise(slope: float) -> None:
    random, costs = np.random.default_rng(0), StepCosts()
    for _ in range(400):
        num_rows = int(random.choice([1, 1, 3, 9, 17]))
        costs.learn(num_rows, (4.0 + slope * num_rows) * random.uniform(0.9, 1.1))
    assert costs.slope_ms == pytest.approx(slope, rel=0.3, abs=0.02)
    assert costs.ms(4) == pytest.approx(4.0 + 4 * slope, rel=0.1)


def test_steps_that_took_a_hundred_times_as_long_are_accidents() -> None:
    random, costs = np.random.default_rng(0), StepCosts()
    for number in range(600):
        num_rows = int(random.choice([1, 9]))
        costs.learn(num_rows, (4.0 + 0.2 * num_rows) * (100.0 if number % 50 == 20 else 1.0))
    assert costs.slope_ms == pytest.approx(0.2, abs=0.15)
    assert 4.0 < costs.ms(1) < 5.0


def test_a_machine_that_became_slower_is_believed_in_the_end() -> None:
    costs = StepCosts()
    for ms in (4.0, 40.0):
        for number in range(1000):
            costs.learn(1 + 8 * (number % 2), ms)
    assert costs.ms(1) == pytest.approx(40.0, rel=0.05)


def test_a_row_is_never_taken_to_be_free_or_dearer_than_a_step() -> None:
    falling, steep = StepCosts(), StepCosts()
    for number in range(400):
        falling.learn(1 + 8 * (number % 2), 10.0 - 5.0 * (number % 2))
        steep.learn(1 + 8 * (number % 2), 1.0 + 1000.0 * (number % 2))
    assert falling.slope_ms > 0
    assert steep.slope_ms <= steep.ms(5) / 5 * 1.01


def test_what_was_learned_of_rows_is_kept_while_they_do_not_vary() -> None:
    costs = StepCosts()
    for number in range(400):
        costs.learn(1 + 8 * (number % 2), 2.0 + 2.0 * (1 + 8 * (number % 2)))
    for _ in range(2000):
        costs.learn(1, 4.0)
    assert costs.slope_ms > 0.5, "dear rows do not become cheap by being left out"


def test_nothing_is_known_before_the_first_step() -> None:
    assert not StepCosts().known
    assert (StepCosts().ms(5), StepCosts().slope_ms) == (0.0, 0.0)
