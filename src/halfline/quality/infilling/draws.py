"""pass@k: whether one of k answers to the same hole is right, from several that were drawn."""

from collections import defaultdict
from collections.abc import Sequence
from math import comb

import numpy as np

from halfline.quality.divergence import Interval, bootstrap_mean
from halfline.quality.infilling.report import Compared
from halfline.quality.infilling.run import Result

Draws = Sequence[Sequence[Result]]
"""Results of each draw, of the same tasks in the same order."""


def pass_at(k: int, num_right: int, num_drawn: int) -> float:
    """The chance that one of `k` of the drawn answers is right, without bias (Chen et al. 2021, arXiv 2107.03374).

    Raises ValueError when fewer than `k` were drawn.
    """
    if k > num_drawn:
        raise ValueError(f"pass@{k} needs {k} draws, there are {num_drawn}")
    return 1.0 - comb(num_drawn - num_right, k) / comb(num_drawn, k)


def mean_pass_at(k: int, draws: Draws) -> float | None:
    """Over tasks that can be run; None where none can."""
    values = list(_by_task(k, draws).values())
    return sum(values) / len(values) if values else None


def compare_pass_at(k: int, baseline: Draws, candidate: Draws) -> Compared | None:
    """Of draws of the same tasks. The interval draws problems again, as holes of one are not independent."""
    before, after = _by_task(k, baseline), _by_task(k, candidate)
    if not before:
        return None
    problems = {result.task.id: result.task.problem for result in baseline[0]}
    numbers: defaultdict[str, int] = defaultdict(lambda: len(numbers))
    clusters = np.array([numbers[problems[task]] for task in before], dtype=np.int64)
    first = np.array([before[task] for task in before])
    second = np.array([after[task] for task in before])
    interval: Interval | None = bootstrap_mean(second - first, clusters, seed=0)
    return Compared(float(first.mean()), float(second.mean()), interval)


def _by_task(k: int, draws: Draws) -> dict[str, float]:
    passed: defaultdict[str, list[bool]] = defaultdict(list)
    for results in draws:
        for result in results:
            if result.score.passed is not None:
                passed[result.task.id].append(result.score.passed)
    return {task: pass_at(k, sum(each), len(each)) for task, each in passed.items()}
