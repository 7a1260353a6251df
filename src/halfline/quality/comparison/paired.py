"""What may be concluded from the same tasks done twice: intervals of differences, and McNemar's test."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from halfline.quality.divergence import Interval, bootstrap_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """Over `num_tasks`; the interval draws whole files again, None for a single file."""

    num_tasks: int
    value: float
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Means of the same tasks, and the candidate's less the baseline's with its 95 %.

    `p_value`: McNemar's, exact and two-sided, where each task is either done or not; None for other measures.
    """

    num_tasks: int
    baseline: float
    candidate: float
    interval: Interval | None
    p_value: float | None

    @property
    def difference(self) -> float:
        return self.candidate - self.baseline


def mean_of(values: Sequence[tuple[str, float]], seed: int = 0) -> Mean | None:
    """`values` are a file's name and a number each; None of nothing."""
    if not values:
        return None
    numbers = np.array([value for _, value in values], np.float64)
    return Mean(
        num_tasks=len(values),
        value=float(numbers.mean()),
        interval=bootstrap_mean(numbers, _clusters([file for file, _ in values]), seed),
    )


def change_of(pairs: Sequence[tuple[str, float, float]], *, binary: bool, seed: int = 0) -> Change | None:
    """`pairs` are a file's name, the baseline's number and the candidate's; None of nothing."""
    if not pairs:
        return None
    before = np.array([first for _, first, _ in pairs], np.float64)
    after = np.array([second for _, _, second in pairs], np.float64)
    lost, won = int((before > after).sum()), int((after > before).sum())
    return Change(
        num_tasks=len(pairs),
        baseline=float(before.mean()),
        candidate=float(after.mean()),
        interval=bootstrap_mean(after - before, _clusters([file for file, _, _ in pairs]), seed),
        p_value=mcnemar(lost, won) if binary else None,
    )


def mcnemar(lost: int, won: int) -> float:
    """The probability that tasks which only one of two equals does fall at least so unevenly (McNemar 1947, exact).

    `lost` were done by the baseline alone, `won` by the candidate alone.
    """
    discordant = lost + won
    tail = ways = 1  # of n coins: so many ways to show k heads, and k or fewer
    for k in range(min(lost, won)):
        ways = ways * (discordant - k) // (k + 1)
        tail += ways
    # Whole numbers: 2^n is no float for as many tasks as a suite has.
    return min(1.0, 2 * tail / (1 << discordant))


def _clusters(files: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(file, len(numbers)) for file in files], np.int64)
