"""Differences of pairs: McNemar's test is the binomial it stands for, intervals resample files."""

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.quality.comparison.paired import change_of, mcnemar, mean_of


@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_is_a_fair_coins_chance_to_be_so_uneven(lost: int, won: int) -> None:
    n = lost + won
    as_uneven = [k for k in range(n + 1) if abs(2 * k - n) >= abs(lost - won)]
    assert mcnemar(lost, won) == pytest.approx(sum(comb(n, k) for k in as_uneven) / 2**n)
    assert mcnemar(lost, won) == mcnemar(won, lost)


def test_mcnemar_takes_thousands_of_tasks() -> None:
    assert mcnemar(2000, 2000) == pytest.approx(1.0)
    assert mcnemar(1000, 2000) < 1e-50


def test_only_a_yes_or_no_has_a_p_value() -> None:
    pairs = [("a", 1.0, 0.0), ("a", 1.0, 1.0), ("b", 0.0, 0.0)]
    binary = change_of(pairs, binary=True)
    assert binary is not None and binary.p_value == 1.0
    assert binary.difference == pytest.approx(-1 / 3)
    other = change_of(pairs, binary=False)
    assert other is not None and other.p_value is None


def test_tasks_of_one_file_are_no_evidence_for_another() -> None:
    one_file = mean_of([("a", float(i % 2)) for i in range(100)])
    assert one_file is not None and one_file.interval is None
    two_files = mean_of([("a", 1.0)] * 50 + [("b", 0.0)] * 50)
    assert two_files is not None and two_files.interval is not None
    assert (two_files.interval.low, two_files.interval.high) == (0.0, 1.0)
    assert mean_of([]) is None and change_of([], binary=True) is None
