"""Ratios are taken within rounds, against the peer with the highest median."""

import pytest

from halfline.bench.ratios import Spread, against_best, rates_of, ratios_to, spread_of
from halfline.bench.rounds import Round
from halfline.bench.workloads import Rates


def rounds(*rates: dict[str, Rates]) -> list[Round]:
    return [Round(0.1, 0.2, each) for each in rates]


def test_a_ratio_is_taken_within_its_round_and_not_between_medians() -> None:
    drifting = rounds(
        {"ours": {"decode": 100.0}, "peer": {"decode": 50.0}},
        {"ours": {"decode": 30.0}, "peer": {"decode": 10.0}},
        {"ours": {"decode": 60.0}, "peer": {"decode": 40.0}},
    )
    assert ratios_to(drifting, "ours", "peer", "decode") == (2.0, 3.0, 1.5)
    comparison = against_best(drifting, "ours", "decode")
    assert comparison is not None
    assert comparison.spread == Spread(2.0, 1.5, 3.0)


def test_the_best_peer_is_the_one_with_the_highest_median_per_workload() -> None:
    mixed = rounds(
        {
            "ours": {"decode": 10.0, "prefill": 10.0},
            "lucky once": {"decode": 99.0, "prefill": 1.0},
            "steady": {"decode": 5.0, "prefill": 2.0},
        },
        {
            "ours": {"decode": 10.0, "prefill": 10.0},
            "lucky once": {"decode": 1.0, "prefill": 4.0},
            "steady": {"decode": 5.0, "prefill": 2.0},
        },
        {
            "ours": {"decode": 10.0, "prefill": 10.0},
            "lucky once": {"decode": 1.0, "prefill": 4.0},
            "steady": {"decode": 5.0, "prefill": 2.0},
        },
    )
    decode, prefill = (against_best(mixed, "ours", workload) for workload in ("decode", "prefill"))
    assert decode is not None and prefill is not None
    assert (decode.peer, decode.ratios) == ("steady", (2.0, 2.0, 2.0))
    assert (prefill.peer, prefill.ratios) == ("lucky once", (10.0, 2.5, 2.5))


def test_a_peer_that_leaves_a_workload_out_is_not_compared_in_it() -> None:
    partly = rounds({"ours": {"decode": 10.0, "parallel": 10.0}, "peer": {"decode": 5.0}})
    assert against_best(partly, "ours", "parallel") is None
    assert rates_of(partly, "peer", "parallel") == []


def test_nobody_is_the_best_peer_of_a_benchmark_without_peers() -> None:
    assert against_best(rounds({"ours": {"decode": 1.0}}), "ours", "decode") is None


@pytest.mark.parametrize(
    ("values", "spread"), [([3.0], Spread(3, 3, 3)), ([4.0, 1.0, 9.0, 2.0], Spread(3, 1, 9))]
)
def test_a_spread_keeps_the_smallest_and_the_largest(values: list[float], spread: Spread) -> None:
    assert spread_of(values) == spread
