"""From the rates of many rounds to the few numbers that say who is faster, and by how much.

A ratio is taken within a round, where both sides met the same machine; the median is taken over those ratios, and the
smallest and largest are kept beside it.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from halfline.bench.rounds import Round
from halfline.bench.workloads import Workload


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the smallest and the largest value beside it."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours against the peer with the highest median; `ratios` are ours / theirs, one per round."""

    peer: str
    ratios: tuple[float, ...]
    spread: Spread


def spread_of(values: Sequence[float]) -> Spread:
    """Of at least one value."""
    return Spread(statistics.median(values), min(values), max(values))


def rates_of(rounds: Sequence[Round], name: str, workload: Workload) -> list[float]:
    """One rate per round in which `name` ran the workload."""
    return [round.rates[name][workload] for round in rounds if workload in round.rates[name]]


def names_of(rounds: Sequence[Round]) -> list[str]:
    return list(rounds[0].rates)


def ratios_to(rounds: Sequence[Round], ours: str, peer: str, workload: Workload) -> tuple[float, ...]:
    """Ours / theirs, one per round in which both ran the workload."""
    pairs = [(round.rates[ours].get(workload), round.rates[peer].get(workload)) for round in rounds]
    return tuple(mine / theirs for mine, theirs in pairs if mine is not None and theirs is not None)


def against_best(rounds: Sequence[Round], ours: str, workload: Workload) -> Comparison | None:
    """None when no peer ran the workload."""
    medians = {
        name: statistics.median(rates)
        for name in names_of(rounds)
        if name != ours and (rates := rates_of(rounds, name, workload))
    }
    if not medians:
        return None
    best = max(medians, key=lambda name: medians[name])
    ratios = ratios_to(rounds, ours, best, workload)
    return Comparison(best, ratios, spread_of(ratios))
