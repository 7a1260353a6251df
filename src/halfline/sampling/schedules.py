"""Temperature and top-k that change from token to token: sure where the model is sure, careful where it is not.

Two ways to drive them. By step, both follow one exponential: the temperature falls from `base_temp` towards zero and
stops at `min_temp`, while `k` rises from `k_min` towards `k_max`. By entropy, a token of which the model is certain has
`min_temp` and `k_min`, and the less certain it is the nearer they come to `base_temp` and `k_max`.
"""

import math

import numpy as np
from numpy.typing import NDArray


class AdaptiveSamplingScheduler:
    """Knows the curves and nothing of the sequence. `decay_rate` is per step, or per bit of entropy."""

    def __init__(self, base_temp: float, min_temp: float, k_min: int, k_max: int, decay_rate: float) -> None:
        if not 0.0 < min_temp <= base_temp:
            raise ValueError(f"min_temp is {min_temp}, it must be above 0 and at most base_temp, {base_temp}")
        if not 1 <= k_min <= k_max:
            raise ValueError(f"k_min is {k_min}, it must be at least 1 and at most k_max, {k_max}")
        if not decay_rate >= 0.0:
            raise ValueError(f"decay_rate is {decay_rate}, it must not be negative")
        self._base_temp = base_temp
        self._min_temp = min_temp
        self._k_min = k_min
        self._k_max = k_max
        self._decay_rate = decay_rate

    def at_step(self, step: int) -> tuple[float, int]:
        """(temperature, k) of the token after `step` others."""
        left = math.exp(-self._decay_rate * step)
        return max(self._min_temp, self._base_temp * left), self._k(1.0 - left)

    def at_entropy(self, bits: float) -> tuple[float, int]:
        """(temperature, k) of a token whose distribution has that entropy."""
        unsure = 1.0 - math.exp(-self._decay_rate * bits)
        return self._min_temp + (self._base_temp - self._min_temp) * unsure, self._k(unsure)

    def _k(self, share: float) -> int:
        return min(self._k_max, round(self._k_min + (self._k_max - self._k_min) * share))


def entropy_bits(logits: NDArray[np.float32]) -> float:
    """Of the softmax of a row; a logit of minus infinity is a token that cannot come."""
    shifted = logits.astype(np.float64) - float(logits.max())
    weights = np.exp(shifted)
    total = float(weights.sum())
    expected = float(np.dot(weights[weights > 0.0], shifted[weights > 0.0])) / total
    return (math.log(total) - expected) / math.log(2.0)
