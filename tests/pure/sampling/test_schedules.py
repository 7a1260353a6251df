"""Temperature and top-k follow their curves, and change nothing where there is nothing to follow."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.errors import BadRequest
from halfline.request import SamplingParams, Schedule
from halfline.sampling.sampler import Sampler
from halfline.sampling.schedules import AdaptiveSamplingScheduler, entropy_bits


def tokens(params: SamplingParams, num_tokens: int = 40) -> list[int]:
    sampler = Sampler(params, [1, 2, 3])
    random = np.random.default_rng(11)
    rows = random.normal(0.0, 4.0, (num_tokens, 300)).astype(np.float32)
    return [sampler.sample(row).token_id for row in rows]


def test_by_step_the_temperature_falls_exponentially_to_its_floor() -> None:
    scheduler = AdaptiveSamplingScheduler(base_temp=1.0, min_temp=0.1, k_min=20, k_max=100, decay_rate=0.5)
    temperatures = [scheduler.at_step(step)[0] for step in range(10)]
    assert temperatures[:4] == pytest.approx([1.0, math.exp(-0.5), math.exp(-1.0), math.exp(-1.5)])
    assert temperatures[-1] == 0.1


def test_by_step_k_rises_from_its_least_to_its_most() -> None:
    scheduler = AdaptiveSamplingScheduler(base_temp=1.0, min_temp=0.1, k_min=20, k_max=100, decay_rate=0.5)
    ks = [scheduler.at_step(step)[1] for step in range(40)]
    assert ks[:3] == [20, round(20 + 80 * (1 - math.exp(-0.5))), round(20 + 80 * (1 - math.exp(-1.0)))]
    assert ks == sorted(ks)
    assert ks[-1] == 100


def test_by_entropy_a_sure_model_is_nearly_deterministic_and_an_unsure_one_is_free() -> None:
    scheduler = AdaptiveSamplingScheduler(base_temp=0.9, min_temp=0.1, k_min=1, k_max=50, decay_rate=1.0)
    assert scheduler.at_entropy(0.0) == (0.1, 1)
    assert scheduler.at_entropy(1.0) == (pytest.approx(0.9 - 0.8 * math.exp(-1.0)), 32)
    assert scheduler.at_entropy(15.0) == (pytest.approx(0.9, abs=1e-6), 50)


@given(
    st.floats(0.1, 2.0), st.floats(0.01, 0.1), st.integers(1, 50), st.integers(50, 200), st.floats(0.0, 5.0)
)
def test_both_curves_stay_within_their_bounds_and_never_turn(
    base_temp: float, min_temp: float, k_min: int, k_max: int, decay_rate: float
) -> None:
    scheduler = AdaptiveSamplingScheduler(base_temp, min_temp, k_min, k_max, decay_rate)
    for curve, falls in ((scheduler.at_step, True), (scheduler.at_entropy, False)):
        points = [curve(place) for place in range(30)]
        temperatures, ks = [point[0] for point in points], [point[1] for point in points]
        assert temperatures == sorted(temperatures, reverse=falls)
        assert ks == sorted(ks)
        assert all(min_temp <= temperature <= base_temp + 1e-12 for temperature in temperatures)
        assert all(k_min <= k <= k_max for k in ks)


@pytest.mark.parametrize("by", ["step", "entropy"])
def test_a_flat_schedule_draws_what_its_temperature_and_top_k_draw(by: str) -> None:
    flat = Schedule(by=by, base_temp=0.8, min_temp=0.8, k_min=20, k_max=20, decay_rate=0.3)
    plain = SamplingParams(temperature=0.8, top_k=20, seed=5)
    assert tokens(SamplingParams(schedule=flat, seed=5)) == tokens(plain)


def test_a_schedule_that_never_decays_keeps_its_first_values() -> None:
    still = Schedule(base_temp=0.8, min_temp=0.1, k_min=20, k_max=100, decay_rate=0.0)
    plain = SamplingParams(temperature=0.8, top_k=20, seed=5)
    assert tokens(SamplingParams(schedule=still, seed=5)) == tokens(plain)


def test_late_tokens_of_a_schedule_by_step_are_the_likeliest() -> None:
    cooling = Schedule(base_temp=1.5, min_temp=0.01, k_min=300, k_max=300, decay_rate=1.0)
    greedy = tokens(SamplingParams())
    assert tokens(SamplingParams(schedule=cooling, seed=5))[10:] == greedy[10:]
    assert tokens(SamplingParams(temperature=1.5, seed=5))[10:] != greedy[10:]


def test_a_known_token_is_a_step_too() -> None:
    cooling = Schedule(base_temp=1.5, min_temp=0.01, k_min=300, k_max=300, decay_rate=1.0)
    sampler = Sampler(SamplingParams(schedule=cooling, seed=5), [1])
    for _ in range(10):
        sampler.follow(0)
    rows = np.random.default_rng(3).normal(0.0, 4.0, (20, 300)).astype(np.float32)
    assert [sampler.sample(row).token_id for row in rows] == rows.argmax(axis=1).tolist()


def test_entropy_is_in_bits_of_what_can_come() -> None:
    assert entropy_bits(np.zeros(8, np.float32)) == pytest.approx(3.0)
    assert entropy_bits(np.array([0.0, 0.0, -np.inf], np.float32)) == pytest.approx(1.0)
    assert entropy_bits(np.array([50.0, 0.0], np.float32)) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_temp": 0.0},
        {"base_temp": 0.05},
        {"k_min": 0},
        {"k_max": 5},
        {"decay_rate": -1.0},
        {"decay_rate": math.nan},
    ],
)
def test_a_schedule_out_of_its_bounds_is_refused_by_its_field(wrong: dict[str, float]) -> None:
    with pytest.raises(BadRequest) as refused:
        Schedule(**wrong)
    assert refused.value.field in wrong
