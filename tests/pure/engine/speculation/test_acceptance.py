"""Chances follow what happened, by source and by how much matched."""

import numpy as np
import pytest

from halfline.engine.speculation.acceptance import Acceptance


def test_a_longer_match_is_likelier_right_before_anything_happened() -> None:
    acceptance = Acceptance()
    chances = [acceptance.chance("own", num_matched) for num_matched in range(1, 17)]
    assert chances == sorted(chances)
    assert 0.2 < chances[0] < 0.5 < 0.9 < chances[-1] < 1


def test_each_case_learns_its_own_share() -> None:
    random, acceptance = np.random.default_rng(0), Acceptance()
    shares = {("own", 2): 0.3, ("own", 3): 0.8, ("given", 2): 0.05}
    for _ in range(2000):
        for (source, num_matched), share in shares.items():
            acceptance.learn(source, num_matched, bool(random.random() < share))  # type: ignore[arg-type]
    for (source, num_matched), share in shares.items():
        assert acceptance.chance(source, num_matched) == pytest.approx(share, abs=0.08)  # type: ignore[arg-type]


def test_new_habits_are_learned_after_old_ones() -> None:
    acceptance = Acceptance()
    for right in (True, False):
        for _ in range(3000):
            acceptance.learn("recent", 4, right)
    assert acceptance.chance("recent", 4) < 0.1


def test_matches_longer_than_the_longest_told_apart_are_one_case() -> None:
    acceptance = Acceptance()
    for _ in range(500):
        acceptance.learn("own", 40, False)
    assert acceptance.chance("own", 16) == acceptance.chance("own", 99) < 0.1
