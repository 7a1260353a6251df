"""Profiles say what a request means that leaves things out."""

import pytest

from halfline.errors import BadRequest
from halfline.request import SamplingParams, Schedule
from halfline.sampling.profiles import DEFAULT_PROFILE, Profile, find_profile


def test_low_latency_always_takes_the_likeliest_and_is_the_default() -> None:
    profile = find_profile(None, DEFAULT_PROFILE, {})
    assert (profile.max_new_tokens, profile.params) == (128, SamplingParams())


def test_high_quality_draws() -> None:
    profile = find_profile("high-quality", DEFAULT_PROFILE, {})
    assert (profile.max_new_tokens, profile.params) == (512, SamplingParams(temperature=0.7))


def test_a_servers_own_profile_may_take_the_place_of_ours() -> None:
    own = {DEFAULT_PROFILE: Profile(max_new_tokens=8)}
    assert find_profile(None, DEFAULT_PROFILE, own).max_new_tokens == 8


def test_a_profile_that_nobody_gave_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadRequest, match="low-latency, high-quality, own"):
        find_profile("fast", DEFAULT_PROFILE, {"own": Profile()})


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"top_p": 1.1},
        {"max_new_tokens": -1},
        {"schedule": Schedule(), "do_sample": False},
    ],
)
def test_a_profile_out_of_its_bounds_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Profile(**wrong)
