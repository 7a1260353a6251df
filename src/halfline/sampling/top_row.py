"""The largest logits of one row, as the executor found them, and what they say about all the rest of it.

Most choices need little of a row: greedy its largest logit, top-k its k largest, a log-probability the row's total.
What cannot be told from these has to be found in the whole row.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfline.model.executor import TopLogits

_TOTAL_ERROR = 4e-6
"""Of the total that an executor gives, relative, and more than it is."""

_ROUNDING = 1e-10  # of sums over a vocabulary in float64, relative, and more than it is
_TINY = 1e-30  # what weighs less is not worth a bound


@dataclass(frozen=True, slots=True)
class TopRow:
    """Of a row whose logits all are finite.

    ids int32 [n], logits float32 [n]: the largest first, the lower id first among equals · log_total:
    log(sum(exp(logits))) over the row's `num_logits`.
    """

    ids: NDArray[np.int32]
    logits: NDArray[np.float32]
    log_total: float
    num_logits: int

    def weights(self, temperature: float) -> NDArray[np.float64]:
        """exp((logit - largest) / temperature) of each; the largest is 1."""
        return weights_of(self.logits, float(self.logits[0]), temperature)

    def total_weight(self, temperature: float) -> tuple[float, float]:
        """Between which two the weights of the whole row add up to.

        The rest has r = num_logits - n logits. At temperature 1 none weighs more than w, the last of these, and they
        add up to s. With p = 1 / temperature their p-th powers add up to something between r (s / r)^p, were all
        equal (Jensen), and s w^(p - 1), were each w or nothing: the former is less where p > 1, more where p < 1.
        """
        weights = self.weights(temperature)
        known, num_rest = float(weights.sum()), self.num_logits - len(self.ids)
        peak = float(self.logits[0])
        low, high = 0.0, num_rest * float(weights[-1])
        last_weight = math.exp(float(self.logits[-1]) - peak)
        if num_rest and last_weight > _TINY:
            power, total = 1.0 / temperature, math.exp(self.log_total - peak)
            rest = total - float(self.weights(1.0).sum())
            least, most = max(0.0, rest - _TOTAL_ERROR * total), rest + _TOTAL_ERROR * total
            lower, upper = (_even, _steep) if power > 1.0 else (_steep, _even)
            low = lower(least, num_rest, last_weight, power)
            high = min(high, upper(most, num_rest, last_weight, power))
        return (known + low) * (1.0 - _ROUNDING), (known + high) * (1.0 + _ROUNDING)


def top_row(top: TopLogits, row: int, num_logits: int) -> TopRow | None:
    """One row of what an executor returned; None when a logit of the row is not finite."""
    log_total = float(top.log_totals[row])
    if math.isnan(log_total):
        return None
    return TopRow(top.ids[row], top.logits[row], log_total, num_logits)


def weights_of(logits: NDArray[np.float32], peak: float, temperature: float) -> NDArray[np.float64]:
    """exp((logit - peak) / temperature), where `peak` is the largest logit of the row they are from."""
    with np.errstate(over="ignore"):  # a tiny temperature sends all but the best to exp(-inf) = 0
        weights: NDArray[np.float64] = np.exp((logits.astype(np.float64) - peak) / temperature)
    return weights


def _even(total: float, count: int, largest: float, power: float) -> float:
    """The sum of `count` weights to that power if each is their mean."""
    return count * math.pow(min(total / count, largest), power)


def _steep(total: float, count: int, largest: float, power: float) -> float:
    """The sum of weights to that power if as many as can are the `largest`."""
    return min(total / largest, float(count)) * math.pow(largest, power)
