"""How much worse is too much: limits by metric, written down before anything is measured, and what breaks them.

mean_kl p99_kl max_kl perplexity_ratio              at most; nats, and a ratio
top1_agreement same edit_similarity bleu4 name_f1   at least; of both arms with each other, from 0 to 1
exact_drop pass_drop similarity_drop                at most: the far end of the interval of what the candidate does
                                                    worse by the true text, so that few tasks prove nothing
syntax_rise                                         at most: likewise, of answers that break the file's syntax
min_tasks                                           at least; fewer are no evidence
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from halfline.errors import BadSettings
from halfline.quality.comparison.paired import Change, Mean
from halfline.quality.comparison.report import Report
from halfline.quality.gate import Breach

Measure = Callable[[Report], float | None]


def _fidelity(name: str) -> Measure:
    return lambda report: _value(report.fidelity.get(name))


def _value(mean: Mean | None) -> float | None:
    return None if mean is None else mean.value


def _drop(name: str) -> Measure:
    """How much the candidate may have lost, by the interval's far end."""
    return lambda report: _far_end(report.quality.get(name), sign=-1.0)


def _rise(name: str) -> Measure:
    return lambda report: _far_end(report.quality.get(name), sign=1.0)


def _far_end(change: Change | None, sign: float) -> float | None:
    if change is None:
        return None
    interval = change.interval
    ends = [change.difference] if interval is None else [interval.low, interval.high]
    return max(sign * end for end in ends)


AT_MOST: Mapping[str, Measure] = {
    "mean_kl": lambda report: report.divergence.mean_kl,
    "p99_kl": lambda report: report.divergence.p99_kl,
    "max_kl": lambda report: report.divergence.max_kl,
    "perplexity_ratio": lambda report: report.divergence.perplexity_ratio,
    "exact_drop": _drop("exact"),
    "pass_drop": _drop("pass@1"),
    "similarity_drop": _drop("edit_similarity"),
    "syntax_rise": _rise("breaks_syntax"),
}

AT_LEAST: Mapping[str, Measure] = {
    "top1_agreement": lambda report: report.divergence.top1_agreement,
    **{name: _fidelity(name) for name in ("same", "edit_similarity", "bleu4", "name_f1")},
    "min_tasks": lambda report: float(report.num_tasks),
}


@dataclass(frozen=True, slots=True)
class Margins:
    """Limits by metric. Raises BadSettings for a metric that nobody measures, or a limit that is no finite number."""

    limits: Mapping[str, float]

    def __post_init__(self) -> None:
        for metric, limit in self.limits.items():
            if metric not in AT_MOST and metric not in AT_LEAST:
                known = ", ".join([*AT_MOST, *AT_LEAST])
                raise BadSettings(f"there is no metric {metric!r} to set a margin for; there are {known}")
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not math.isfinite(limit):
                raise BadSettings(f"the margin of {metric} is {limit!r}, it must be a finite number")

    def breaches(self, report: Report) -> tuple[Breach, ...]:
        """Empty when the candidate may pass. What cannot be measured, and not-a-number, passes nothing."""
        found = []
        for metric, limit in self.limits.items():
            measure = AT_MOST.get(metric) or AT_LEAST[metric]
            value = measure(report)
            measured = math.nan if value is None else value
            kept = measured <= limit if metric in AT_MOST else measured >= limit
            if not kept:
                found.append(Breach(metric, measured, limit))
        return tuple(found)
