"""One arm's results in a few numbers, and how far another one's lie from them, task by task."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from halfline.quality.divergence import Interval, bootstrap_mean
from halfline.quality.infilling.run import Result

METRICS: dict[str, Callable[[Result], float | None]] = {
    "exact": lambda result: float(result.score.exact),
    "first line": lambda result: float(result.score.first_line),
    "similarity": lambda result: result.score.similarity,
    "pass@1": lambda result: None if result.score.passed is None else float(result.score.passed),
    "ms": lambda result: result.filled.ms,
    "tokens computed": lambda result: float(result.filled.computed_tokens),
}


@dataclass(frozen=True, slots=True)
class Compared:
    """Means over the same tasks, and the candidate's less the baseline's with its 95 %, drawn problem by problem; None
    for a single problem.
    """

    baseline: float
    candidate: float
    interval: Interval | None


def mean(results: Sequence[Result], metric: str) -> float | None:
    """None where the metric does not apply to a task."""
    values = [METRICS[metric](result) for result in results]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def compare(baseline: Sequence[Result], candidate: Sequence[Result], metric: str) -> Compared | None:
    """Of results of the same tasks in the same order; None where the metric applies to none."""
    measure = METRICS[metric]
    numbers: dict[str, int] = {}
    clusters, pairs = [], []
    for first, second in zip(baseline, candidate, strict=True):
        before, after = measure(first), measure(second)
        if before is not None and after is not None:
            clusters.append(numbers.setdefault(first.task.problem, len(numbers)))
            pairs.append((before, after))
    if not pairs:
        return None
    both = np.array(pairs, dtype=np.float64)
    return Compared(
        baseline=float(both[:, 0].mean()),
        candidate=float(both[:, 1].mean()),
        interval=bootstrap_mean(both[:, 1] - both[:, 0], np.array(clusters, dtype=np.int64), seed=0),
    )
