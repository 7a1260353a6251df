"""Margins let pass what keeps them, and nothing that cannot be measured."""

import math
from collections.abc import Callable

import pytest

from halfline.errors import BadSettings
from halfline.quality.comparison.case import Case
from halfline.quality.margins import Margins
from halfline.quality.regression_test import run_regression_test

MakeCase = Callable[..., Case]


def test_a_breach_names_metric_measured_and_limit(make_case: MakeCase) -> None:
    cases = [make_case("one", 0.3), make_case("two", 0.0, candidate="a - b", file=1)]
    verdict = run_regression_test(
        cases, Margins({"max_kl": 0.1, "mean_kl": 1.0, "same": 0.9, "min_tasks": 2})
    )
    assert [(each.metric, each.measured, each.limit) for each in verdict.breaches] == [
        ("max_kl", pytest.approx(0.3), 0.1),
        ("same", 0.5, 0.9),
    ]
    assert not verdict.passed
    assert run_regression_test(cases, Margins({"max_kl": 0.3})).passed


def test_a_drop_is_judged_by_the_far_end_of_its_interval(make_case: MakeCase) -> None:
    """One of eight files lost its match: 12.5 %, but as many as 37.5 % would not be surprising."""
    cases = [
        make_case(f"{file}", 0.0, candidate="x" if file == 0 else "a + b", file=file) for file in range(8)
    ]
    change = run_regression_test(cases, Margins({})).report.quality["exact"]
    assert change.difference == pytest.approx(-1 / 8)
    assert change.interval is not None
    (breach,) = run_regression_test(cases, Margins({"exact_drop": 0.2})).breaches
    assert breach.measured == pytest.approx(-change.interval.low) and breach.measured > 0.2


def test_what_cannot_be_measured_passes_nothing(make_case: MakeCase) -> None:
    cases = [make_case("one", math.nan)]
    breaches = run_regression_test(cases, Margins({"mean_kl": 1e9, "pass_drop": 1.0})).breaches
    assert [each.metric for each in breaches] == ["mean_kl", "pass_drop"]


def test_a_margin_that_nobody_measures_or_that_is_no_number_is_refused() -> None:
    with pytest.raises(BadSettings, match="no metric 'mean_lk'"):
        Margins({"mean_lk": 1.0})
    for limit in (math.nan, True, "1"):
        with pytest.raises(BadSettings, match="must be a finite number"):
            Margins({"mean_kl": limit})  # type: ignore[dict-item]
