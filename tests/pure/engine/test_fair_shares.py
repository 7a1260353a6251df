"""Virtual token counters: no credit for absence, no forgetting of debts."""

from hypothesis import given
from hypothesis import strategies as st

from halfline.engine.fair_shares import FairShares


def test_a_newcomer_starts_where_the_least_served_is() -> None:
    shares = FairShares()
    shares.entered("a")
    shares.charge("a", 1000)
    shares.entered("b")
    assert shares.lead("b") == shares.lead("a") == 0


def test_leaving_and_coming_back_forgets_no_debt() -> None:
    shares = FairShares()
    shares.entered("a")
    shares.entered("b")
    shares.charge("a", 700)
    shares.left("a")
    shares.entered("a")
    assert shares.lead("a") == 700


def test_when_everybody_has_left_everybody_is_equal() -> None:
    shares = FairShares()
    for flow in "ab":
        shares.entered(flow)
    shares.charge("a", 700)
    for flow in "ab":
        shares.left(flow)
    assert shares.empty
    shares.entered("a")
    shares.entered("b")
    assert shares.lead("a") == 0


def test_flows_that_come_once_are_not_remembered_for_ever() -> None:
    shares = FairShares()
    shares.entered("stays")
    for number in range(5000):
        shares.entered(str(number))
        shares.charge(str(number), 10)
        shares.left(str(number))
    assert len(shares._gone) <= 1024


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 100))))
def test_a_lead_is_never_negative_and_somebody_has_none(actions: list[tuple[str, int]]) -> None:
    shares = FairShares()
    inside: list[str] = []
    for flow, amount in actions:
        if amount % 3 == 0:
            shares.entered(flow)
            inside.append(flow)
        elif flow in inside and amount % 3 == 1:
            shares.left(flow)
            inside.remove(flow)
        elif flow in inside:
            shares.charge(flow, amount)
        leads = [shares.lead(each) for each in inside]
        assert min(leads, default=0) == 0
        assert shares.empty == (not inside)
