"""Texts are as alike as the textbooks say, and nobody divides by zero."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.quality.comparison.likeness import bleu4, edit_distance, edit_similarity, is_same, name_f1


def test_distance_counts_characters_that_differ_and_not_blanks_at_the_end() -> None:
    assert edit_distance("kitten  \n", "sitting") == 3
    assert edit_similarity("kitten", "sitting") == pytest.approx(1 - 3 / 7)
    assert is_same("a \n", "a") and not is_same(" a", "a")


def test_bleu_is_the_geometric_mean_of_four_precisions() -> None:
    # 4 of 5 words, 3 of 4 pairs, 2 of 3 triples, 1 of 2 quadruples, equally long.
    expected = (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4)
    assert bleu4("a = b + c", "a = b + d") == pytest.approx(expected)


def test_bleu_of_a_short_text_counts_what_it_has_room_for() -> None:
    assert bleu4("x", "x") == pytest.approx(1.0)
    assert bleu4("", "") == 1.0
    assert bleu4("x", "") == bleu4("", "x") == 0.0


def test_names_count_as_often_as_they_stand_there() -> None:
    assert name_f1(["a", "a", "b"], ["a", "b", "c"]) == pytest.approx(2 / 3)
    assert name_f1([], []) == 1.0
    assert name_f1(["a"], []) == 0.0


@given(st.text(max_size=30), st.text(max_size=30))
def test_likeness_lies_between_nothing_and_the_same_whichever_comes_first(one: str, other: str) -> None:
    assert 0.0 <= edit_similarity(one, other) == edit_similarity(other, one) <= 1.0
    assert (edit_distance(one, other) == 0) == is_same(one, other)
    assert bleu4(one, one) == pytest.approx(1.0)
    assert -1e-9 <= bleu4(one, other) <= 1 + 1e-9
