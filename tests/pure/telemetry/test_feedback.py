"""What became of answers says from which confidence on they are worth showing."""

import pytest

from halfline.telemetry.feedback import MIN_ANSWERS, Event, Feedback


def told(*fates: tuple[float | None, bool]) -> Feedback:
    """One answer for each (confidence, accepted)."""
    feedback = Feedback()
    for number, (confidence, accepted) in enumerate(fates):
        feedback.record("t", Event(f"{number}", "shown"), confidence)
        feedback.record("t", Event(f"{number}", "accepted" if accepted else "dismissed"), confidence)
    return feedback


def test_an_answer_counts_once_however_much_is_told_of_it() -> None:
    feedback = Feedback()
    for kind in ("shown", "accepted", "accepted", "dismissed"):
        feedback.record("t", Event("a", kind), None)
    feedback.record("t", Event("b", "dismissed"), None)
    assert (feedback.num_shown, feedback.num_accepted, feedback.kept_rate) == (2, 1, 0.5)


def test_the_same_id_of_another_tenant_is_another_answer() -> None:
    feedback = Feedback()
    feedback.record("t", Event("a", "accepted"), None)
    feedback.record("u", Event("a", "dismissed"), None)
    assert feedback.kept_rate == 0.5


def test_nothing_shown_has_no_kept_rate_and_proposes_nothing() -> None:
    assert Feedback().kept_rate is None
    assert Feedback().proposal(0.0) is None


def test_only_the_latest_are_remembered() -> None:
    feedback = Feedback(max_kept=2)
    for name in "abcb":
        feedback.record("t", Event(name, "accepted" if name == "a" else "shown"), None)
    assert (feedback.num_shown, feedback.num_accepted) == (2, 0)


def test_the_proposal_is_the_lowest_threshold_above_which_enough_were_kept() -> None:
    sure = [(0.9 + n / 1000, n % 4 != 0) for n in range(60)]  # three of four kept
    unsure = [(0.2 + n / 1000, False) for n in range(60)]
    proposal = told(*unsure, *sure).proposal(0.5)
    assert proposal is not None
    assert 0.2 < proposal.min_confidence < 0.9
    assert proposal.kept_rate == pytest.approx(0.5, abs=0.01)
    assert proposal.shown_share == pytest.approx(90 / 120, abs=0.01)
    assert proposal.num_answers == 120


def test_answers_alike_stand_or_fall_together() -> None:
    proposal = told(*[(0.5, n < 50) for n in range(100)]).proposal(0.4)
    assert proposal is not None
    assert (proposal.min_confidence, proposal.kept_rate, proposal.shown_share) == (0.5, 0.5, 1.0)


def test_no_threshold_and_too_few_answers_propose_nothing() -> None:
    assert told(*[(0.5, False)] * 200).proposal(0.1) is None
    assert told(*[(0.5, True)] * (MIN_ANSWERS - 1)).proposal(0.1) is None
    assert told(*[(None, True)] * 200).proposal(0.1) is None
