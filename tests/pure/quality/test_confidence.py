"""A threshold on confidence leaves fewer answers, and is worth having where those are the right ones."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.quality.confidence import Answered, average_precision, curve, first_word

_ANSWERS = st.lists(
    st.builds(
        Answered,
        st.lists(st.floats(-5.0, 0.0), min_size=1, max_size=5).map(tuple),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=20,
)


def answered(probability: float, right: bool) -> Answered:
    return Answered((math.log(probability),), right, True)


def test_confidence_is_the_geometric_mean_of_the_first_probabilities() -> None:
    answer = Answered((math.log(0.8), math.log(0.2), math.log(0.01)), True, True)
    assert answer.confidence(1) == pytest.approx(0.8)
    assert answer.confidence(2) == pytest.approx(0.4)
    assert answer.confidence(None) == pytest.approx((0.8 * 0.2 * 0.01) ** (1 / 3))
    assert answer.confidence(9) == answer.confidence(None)


def test_a_curve_says_what_is_left_and_how_much_of_it_is_right() -> None:
    answers = [answered(0.9, True), answered(0.7, True), answered(0.6, False), answered(0.1, False)]
    points = curve(answers, 1, (0.0, 0.5, 0.65, 0.95))
    assert [(each.share, each.precision) for each in points] == [
        (1.0, 0.5),
        (0.75, pytest.approx(2 / 3)),
        (0.5, 1.0),
        (0.0, None),
    ]


@pytest.mark.parametrize(
    ("text", "word"),
    [("  foo(bar)", "  foo"), ("(a, b)", "("), ("", ""), ("\nfoo", ""), (" += 1", " +"), ("é1 x", "é1")],
)
def test_the_first_word_comes_with_its_blanks(text: str, word: str) -> None:
    assert first_word(text) == word


def test_average_precision_rewards_right_answers_before_wrong_ones() -> None:
    right, wrong = answered(0.9, True), answered(0.1, False)
    assert average_precision([right, right, wrong], 1) == 1.0
    assert average_precision([answered(0.1, True), answered(0.9, False)], 1) == 0.5
    assert average_precision([wrong], 1) == 0.0


@given(_ANSWERS, st.randoms())
def test_neither_depends_on_the_order_of_the_answers(answers: list[Answered], chance) -> None:
    shuffled = list(answers)
    chance.shuffle(shuffled)
    assert average_precision(shuffled, 2) == pytest.approx(average_precision(answers, 2))
    assert curve(shuffled, None) == curve(answers, None)


@given(_ANSWERS)
def test_a_higher_threshold_never_shows_more(answers: list[Answered]) -> None:
    shares = [each.share for each in curve(answers, 3)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1.0
