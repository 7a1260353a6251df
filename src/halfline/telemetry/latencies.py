"""How long something took, over and over: counts in fixed classes, from which Prometheus makes a histogram."""

from bisect import bisect_left
from dataclasses import dataclass

BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@dataclass(frozen=True, slots=True)
class Latencies:
    """`counts[i]`: of at most BOUNDS_S[i] seconds and more than the bound before; the last: of more than all."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS_S) + 1)
    sum_s: float = 0.0

    def observed(self, seconds: float) -> "Latencies":
        """These and one more."""
        place = bisect_left(BOUNDS_S, seconds)
        counts = (*self.counts[:place], self.counts[place] + 1, *self.counts[place + 1 :])
        return Latencies(counts, self.sum_s + seconds)
