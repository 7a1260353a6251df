"""What became of answers says from which confidence on they are worth showing."""

import pytest

from halfline.telemetry.feedback import MIN_ANSWERS, Event, Fate, Feedback, kept_rate, propose


def told(*fates: tuple[float | None, bool]) -> list[Fate]:
    """One answer for each (confidence, accepted)."""
    feedback = Feedback()
    for number, (confidence, accepted) in enumerate(fates):
        feedback.record("t", Event(f"{number}", "shown"), confidence)
        feedback.record("t", Event(f"{number}", "accepted" if accepted else "dismissed"), confidence)
    return feedback.fates()


def test_an_answer_counts_once_however_much_is_told_of_it() -> None:
    feedback = Feedback()
    for kind in ("shown", "accepted", "accepted", "dismissed"):
        feedback.record("t", Event("a", kind), None)
    feedback.record("t", Event("b", "dismissed"), None)
    assert len(feedback.fates()) == 2
    assert kept_rate(feedback.fates()) == 0.5


def test_how_sure_the_model_was_may_become_known_later() -> None:
    feedback = Feedback()
    for confidence in (None, 0.5, 0.25, None):
        feedback.record("t", Event("a", "shown"), confidence)
    assert [fate.confidence for fate in feedback.fates()] == [0.5]


def test_the_same_id_of_another_tenant_is_another_answer() -> None:
    feedback = Feedback()
    feedback.record("t", Event("a", "accepted"), None)
    feedback.record("u", Event("a", "dismissed"), None)
    assert kept_rate(feedback.fates()) == 0.5
    assert [kept_rate(feedback.fates_of(tenant)) for tenant in "tuv"] == [1.0, 0.0, None]


def test_nothing_shown_has_no_kept_rate_and_proposes_nothing() -> None:
    assert kept_rate([]) is None
    assert propose([], 0.0) is None


def test_only_the_latest_are_remembered() -> None:
    feedback = Feedback(max_kept=2)
    for name in "abcb":
        feedback.record("t", Event(name, "accepted" if name == "a" else "shown"), None)
    assert [fate.accepted for fate in feedback.fates()] == [False, False]


def test_the_proposal_is_the_lowest_threshold_above_which_enough_were_kept() -> None:
    sure = [(0.9 + n / 1000, n % 4 != 0) for n in range(60)]  # three of four kept
    unsure = [(0.2 + n / 1000, False) for n in range(60)]
    proposal = propose(told(*unsure, *sure), 0.5)
    assert proposal is not None
    assert 0.2 < proposal.min_confidence < 0.9
    assert proposal.kept_rate == pytest.approx(0.5, abs=0.01)
    assert proposal.shown_share == pytest.approx(90 / 120, abs=0.01)
    assert proposal.num_answers == 120


def test_answers_alike_stand_or_fall_together() -> None:
    proposal = propose(told(*[(0.5, n < 50) for n in range(100)]), 0.4)
    assert proposal is not None
    assert (proposal.min_confidence, proposal.kept_rate, proposal.shown_share) == (0.5, 0.5, 1.0)


def test_no_threshold_and_too_few_answers_propose_nothing() -> None:
    assert propose(told(*[(0.5, False)] * 200), 0.1) is None
    assert propose(told(*[(0.5, True)] * (MIN_ANSWERS - 1)), 0.1) is None
    assert propose(told(*[(None, True)] * 200), 0.1) is None
