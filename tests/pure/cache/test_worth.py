"""When looking for a guess pays."""

from halfline.cache.worth import Worth


def looked(worth: Worth, times: int, cost_ms: float, accepted: int) -> int:
    """How many of so many requests it looked at."""
    count = 0
    for _ in range(times):
        if worth.wants_look():
            count += 1
            worth.looked(cost_ms, accepted, 5.0, proposed=accepted > 0, whole=accepted > 4)
    return count


def test_a_tier_that_saves_more_than_it_takes_looks_every_time() -> None:
    worth = Worth()
    assert looked(worth, 1000, cost_ms=2.0, accepted=1) == 1000
    assert (worth.totals.tokens_accepted, worth.totals.right) == (1000, 1000)
    assert worth.totals.gain_ms == 5000.0 and worth.totals.cost_ms == 2000.0


def test_a_tier_that_takes_more_than_it_saves_looks_now_and_then() -> None:
    worth = Worth()
    looked(worth, 256, cost_ms=2.0, accepted=0)
    assert 0 < looked(worth, 3200, cost_ms=2.0, accepted=0) <= 101
    assert not worth.pays


def test_a_tier_that_begins_to_pay_is_asked_again() -> None:
    worth = Worth()
    looked(worth, 512, cost_ms=2.0, accepted=0)
    assert not worth.pays
    looked(worth, 20_000, cost_ms=2.0, accepted=4)
    assert worth.pays
