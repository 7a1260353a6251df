"""The divergence is the textbook's, and intervals and summaries follow from it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from halfline.model.random_model import random_checkpoint
from halfline.model.reference import ReferenceExecutor
from halfline.quality.divergence import (
    ExecutorLogits,
    Interval,
    Scores,
    bootstrap_mean,
    compare_rows,
    log_softmax,
    measure,
    summarize,
)
from halfline.quality.report import record, rows
from halfline.quality.texts import Window

logits = arrays(np.float32, (3, 5), elements=st.floats(-30, 30, width=32))
TRUE_IDS = np.array([0, 4, 2], np.int32)


@given(logits, logits)
def test_kl_is_the_sum_that_defines_it(baseline: np.ndarray, candidate: np.ndarray) -> None:
    scores = compare_rows(baseline, candidate, TRUE_IDS, 0)
    for row in range(3):
        p, q = (
            np.exp(x[row].astype(float)) / np.exp(x[row].astype(float)).sum() for x in (baseline, candidate)
        )
        assert scores.kl[row] == pytest.approx(sum(p * np.log(p / q)), rel=1e-9, abs=1e-12)
        assert scores.baseline_nll[row] == pytest.approx(-math.log(p[TRUE_IDS[row]]))
        assert scores.candidate_nll[row] == pytest.approx(-math.log(q[TRUE_IDS[row]]))


@given(arrays(np.int32, (3, 5), elements=st.integers(-30_000, 30_000)), st.integers(-1_000_000, 1_000_000))
def test_logits_that_differ_by_a_constant_are_the_same_distribution(
    fractions: np.ndarray, shift: int
) -> None:
    """Multiples of a power of two, or what is added would round two of them to one."""
    baseline = (fractions / 1024).astype(np.float32)
    scores = compare_rows(baseline, baseline.astype(np.float64) + shift / 1024, TRUE_IDS, 0)
    assert scores.same_top.all()
    np.testing.assert_allclose(scores.kl, 0, atol=1e-10)


@given(logits, logits)
def test_kl_is_never_negative_beyond_rounding(baseline: np.ndarray, candidate: np.ndarray) -> None:
    assert compare_rows(baseline, candidate, TRUE_IDS, 0).kl.min() >= -1e-14


def test_huge_logits_neither_overflow_nor_vanish() -> None:
    np.testing.assert_allclose(np.exp(log_softmax(np.array([[1e4, 1e4 - 1, -1e4]]))).sum(), 1)


def test_a_token_that_neither_can_produce_adds_nothing_and_one_only_the_baseline_can_adds_infinity() -> None:
    impossible = np.array([[0, -np.inf]])
    assert compare_rows(impossible, impossible, TRUE_IDS[:1], 0).kl[0] == 0
    assert compare_rows(np.zeros((1, 2)), impossible, TRUE_IDS[:1], 0).kl[0] == np.inf


def test_vocabularies_of_different_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        compare_rows(np.zeros((3, 5)), np.zeros((3, 6)), TRUE_IDS, 0)


def some_scores(kl: list[float], cluster: list[int]) -> Scores:
    n = len(kl)
    return Scores(np.array(kl), np.ones(n, bool), np.full(n, 2.0), np.full(n, 2.5), np.array(cluster))


def test_a_summary_says_mean_median_tail_and_worst() -> None:
    summary = summarize(some_scores([float(i) for i in range(101)], [0] * 51 + [1] * 50))
    assert (summary.num_positions, summary.num_files) == (101, 2)
    assert (summary.mean_kl, summary.p50_kl, summary.p99_kl, summary.max_kl) == (50, 50, 99, 100)
    assert summary.perplexity_ratio == pytest.approx(math.exp(0.5))
    assert record(summary)["p99_kl"] == 99
    assert ("KL max", "1.00e+02") in rows(summary)


def test_the_interval_resamples_files_not_positions() -> None:
    # Two files that are constant inside: only drawing whole files can move the mean.
    values, cluster = np.repeat([0.0, 1.0], 1000), np.repeat([0, 1], 1000)
    assert bootstrap_mean(values, cluster, 0) == Interval(0.0, 1.0)
    shuffled = np.random.default_rng(0).integers(100, size=2000)
    interval = bootstrap_mean(values, shuffled, 0)
    assert interval is not None
    assert 0.47 < interval.low < 0.5 < interval.high < 0.53


def test_the_interval_is_the_same_for_the_same_seed_and_absent_for_one_file() -> None:
    values, cluster = np.arange(40.0), np.arange(40) % 7
    assert bootstrap_mean(values, cluster, 1) == bootstrap_mean(values, cluster, 1)
    assert bootstrap_mean(values, cluster, 1) != bootstrap_mean(values, cluster, 2)
    assert bootstrap_mean(values, np.zeros(40, int), 1) is None


def test_windows_are_scored_from_an_empty_kv_whatever_the_rows_at_once() -> None:
    checkpoint = random_checkpoint()
    generator = np.random.default_rng(3)
    windows = [Window(name, generator.integers(256, size=50).astype(np.int32)) for name in "ab"]

    def score(max_rows: int) -> Scores:
        source = ExecutorLogits(ReferenceExecutor(checkpoint, num_blocks=4))
        other = ExecutorLogits(ReferenceExecutor(random_checkpoint(seed=1), num_blocks=4))
        return measure(source, other, windows, max_rows=max_rows)

    whole, cut = score(256), score(7)
    assert whole.cluster.tolist() == [0] * 49 + [1] * 49
    assert whole.kl.mean() > 0.1
    np.testing.assert_allclose(whole.kl, cut.kl, rtol=1e-4)
    np.testing.assert_allclose(whole.baseline_nll, cut.baseline_nll, rtol=1e-5)

    executor = ReferenceExecutor(checkpoint, num_blocks=4)
    logits = next(ExecutorLogits(executor).pieces(windows[1].token_ids, 50))
    expected = -log_softmax(logits)[np.arange(49), windows[1].token_ids[1:]]
    np.testing.assert_allclose(whole.baseline_nll[49:], expected, rtol=1e-5)
