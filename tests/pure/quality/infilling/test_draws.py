"""pass@k is what drawing k of the answers again and again would come to."""

import itertools
from statistics import mean

import pytest

from halfline.quality.infilling.draws import compare_pass_at, mean_pass_at, pass_at
from halfline.quality.infilling.run import Filled, Result
from halfline.quality.infilling.scores import Score
from halfline.quality.infilling.suites import Task


def _result(name: str, passed: bool | None) -> Result:
    task = Task(
        id=name, problem=name[0], path="t.py", prefix="", suffix="", wanted="", single_line=False, checks=None
    )
    score = Score(exact=False, first_line=False, similarity=0.0, passed=passed)
    return Result(task, Filled(text="", ms=1.0, computed_tokens=1), score)


@pytest.mark.parametrize("num_right", range(6))
@pytest.mark.parametrize("k", range(1, 6))
def test_it_is_the_share_of_all_choices_of_k_that_hold_a_right_answer(k: int, num_right: int) -> None:
    answers = [place < num_right for place in range(5)]
    share = mean(any(chosen) for chosen in itertools.combinations(answers, k))
    assert pass_at(k, num_right, 5) == pytest.approx(share)


def test_more_than_were_drawn_cannot_be_asked_for() -> None:
    with pytest.raises(ValueError, match="pass@3 needs 3 draws, there are 2"):
        pass_at(3, 1, 2)


def test_tasks_that_cannot_be_run_do_not_count() -> None:
    draws = [[_result("a", True), _result("b", None)], [_result("a", False), _result("b", None)]]
    assert mean_pass_at(1, draws) == 0.5
    assert mean_pass_at(2, draws) == 1.0
    assert mean_pass_at(1, [[_result("b", None)]]) is None
    assert compare_pass_at(1, [[_result("b", None)]], [[_result("b", None)]]) is None


def test_two_arms_are_compared_hole_by_hole() -> None:
    never = [[_result("a", False), _result("b", False)]] * 2
    sometimes = [[_result("a", True), _result("b", False)], [_result("a", False), _result("b", True)]]
    compared = compare_pass_at(2, never, sometimes)
    assert compared is not None and compared.interval is not None
    assert (compared.baseline, compared.candidate) == (0.0, 1.0)
    assert compared.interval.low == compared.interval.high == 1.0
