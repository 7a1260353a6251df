import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from halfline.context.compression.entropy import (
    EntropyThreshold,
    EntropyTruncation,
    MeanPlusDeviations,
    TimesMean,
    WindowEntropy,
)
from halfline.context.compression.passes import Budget, LineTokens, lined
from halfline.request import Part

BYTES = LineTokens(lambda text: list(text.encode()))


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(1, 9))
def test_a_step_gives_what_counting_the_window_anew_gives(token_ids: list[int], size: int) -> None:
    window = WindowEntropy(size)
    for position, token_id in enumerate(token_ids):
        found = window.push(token_id)
        latest = token_ids[max(0, position + 1 - size) : position + 1]
        shares = [count / len(latest) for count in Counter(latest).values()]
        assert math.isclose(found, -sum(p * math.log2(p) for p in shares), abs_tol=1e-9)


def test_nothing_is_above_the_threshold_before_the_first_sample() -> None:
    assert EntropyThreshold(TimesMean()).value == math.inf
    assert EntropyThreshold(MeanPlusDeviations()).value == math.inf


def test_the_first_sample_counts_no_more_than_its_age_allows() -> None:
    threshold = EntropyThreshold(TimesMean(1.0))
    threshold.update_threshold(100.0)
    for _ in range(20):
        threshold.update_threshold(0.0)
    share = 0.95**20 * 0.05 / (1 - 0.95**21)
    assert math.isclose(threshold.value, 100.0 * share)
    assert share < 0.03  # a mean that begins with the first sample would leave it 0.36


def test_the_articles_rule_is_a_fifth_above_the_weighted_mean() -> None:
    threshold = EntropyThreshold(TimesMean())
    for _ in range(5):
        last = threshold.update_threshold(2.0, alpha=0.95)
    assert math.isclose(last, 2.4)


def test_the_deviation_of_equal_samples_is_nothing() -> None:
    threshold = EntropyThreshold(MeanPlusDeviations(3.0))
    for _ in range(50):
        threshold.update_threshold(1.5)
    assert math.isclose(threshold.value, 1.5, abs_tol=1e-6)


def test_a_line_of_many_kinds_among_lines_of_few_is_left_out() -> None:
    plain = "aaaa aaaa\n" * 20
    part = lined(Part(plain + "q7#xK!z0Lp%W\n" + plain))
    shrunk = EntropyTruncation(BYTES, MeanPlusDeviations(2.0), 12).shrink([part], Budget(0))
    assert [each.number for each in shrunk.dropped] == [20]
    assert shrunk.parts[0].text == plain + plain
    assert shrunk.reasons() == {"entropy": 1}


@given(
    st.lists(st.sampled_from(["a a a\n", "b = c(d)\n", "xyz = [1, 2]\n", "\n"]), max_size=40),
    st.integers(0, 40),
)
def test_a_part_that_grows_at_its_end_keeps_its_decisions(lines: list[str], shorter: int) -> None:
    passed = EntropyTruncation(BYTES, MeanPlusDeviations(0.5), 8)
    whole = passed.shrink([lined(Part("".join(lines)))], Budget(0)).dropped
    head = passed.shrink([lined(Part("".join(lines[:shorter])))], Budget(0)).dropped
    assert head == tuple(each for each in whole if each.number < shorter)
