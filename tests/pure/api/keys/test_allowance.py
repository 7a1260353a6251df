"""How often a key may ask, and for how much at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.api.keys.allowance import Allowances
from halfline.api.keys.key import new_key
from halfline.errors import OverLimit


class Clock:
    passed_s = 0.0

    def __call__(self) -> float:
        return self.passed_s


def test_a_minute_s_worth_may_be_used_at_once_and_comes_back_evenly() -> None:
    clock = Clock()
    allowances = Allowances(clock)
    key, _ = new_key(1e9, per_minute=6)
    for _ in range(6):
        allowances.spend(key)
    with pytest.raises(OverLimit, match="6 times a minute") as refused:
        allowances.spend(key)
    assert refused.value.retry_after_s == pytest.approx(10.0)
    clock.passed_s = 10.0
    allowances.spend(key)
    with pytest.raises(OverLimit):
        allowances.spend(key)


@given(
    per_minute=st.integers(1, 100),
    pauses_s=st.lists(st.floats(0, 100, allow_nan=False), max_size=200),
)
def test_no_more_is_ever_spent_than_a_full_bucket_and_what_came_since(
    per_minute: int, pauses_s: list[float]
) -> None:
    clock = Clock()
    allowances = Allowances(clock)
    key, _ = new_key(1e9, per_minute=per_minute)
    num_spent = 0
    for pause_s in pauses_s:
        clock.passed_s += pause_s
        try:
            allowances.spend(key)
            num_spent += 1
        except OverLimit as refused:
            assert 0 < refused.retry_after_s <= 60 / per_minute
    assert num_spent <= per_minute + clock.passed_s * per_minute / 60 + 1e-6


def test_places_are_taken_until_they_are_left() -> None:
    allowances = Allowances(Clock())
    key, _ = new_key(1e9, at_once=2)
    other, _ = new_key(1e9, at_once=1)
    allowances.enter(key)
    allowances.enter(key)
    with pytest.raises(OverLimit, match="2 requests at once"):
        allowances.enter(key)
    allowances.enter(other)
    allowances.leave(key)
    allowances.enter(key)


def test_a_key_without_limits_has_none() -> None:
    allowances = Allowances(Clock())
    key, _ = new_key(1e9)
    for _ in range(1000):
        allowances.spend(key)
        allowances.enter(key)
