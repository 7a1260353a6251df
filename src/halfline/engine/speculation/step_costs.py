"""What one more row costs a step, learned from the steps that ran.

A small step reads every weight once whatever its rows, so its time is nearly a line in the number of rows: a large
constant, a small slope. The line is fitted by least squares that forget; no clock is read here.
"""

_FORGET = 0.99
_OUTLIER = 3.0
_STEADY = 16.0  # summed weights after which a step that took long is an accident rather than news
_TRUST = 4.0  # weight · rows² of the belief about the slope, beside what was measured


class StepCosts:
    """`ms(rows)` = base + slope · rows."""

    def __init__(self) -> None:
        self._weight = self._rows = self._ms = self._rows_rows = self._rows_ms = 0.0
        self._share = 0.05  # slope as a part of a step's time; what is believed where rows did not vary
        self.slope_ms = 0.0
        self._mean_rows = self._mean_ms = 0.0

    @property
    def known(self) -> bool:
        return self._mean_ms > 0

    def ms(self, num_rows: int) -> float:
        """Expected time of a step; 0 as long as nothing is known."""
        return self._mean_ms + self.slope_ms * (num_rows - self._mean_rows)

    def learn(self, num_rows: int, step_ms: float) -> None:
        if self._weight > _STEADY:
            step_ms = min(step_ms, _OUTLIER * self.ms(num_rows))
        self._weight = self._weight * _FORGET + 1.0
        self._rows = self._rows * _FORGET + num_rows
        self._ms = self._ms * _FORGET + step_ms
        self._rows_rows = self._rows_rows * _FORGET + num_rows * num_rows
        self._rows_ms = self._rows_ms * _FORGET + num_rows * step_ms
        self._fit()

    def _fit(self) -> None:
        rows = self._mean_rows = self._rows / self._weight
        ms = self._mean_ms = self._ms / self._weight
        variation = self._rows_rows - self._rows * rows
        together = self._rows_ms - self._ms * rows
        # Rows that hardly varied say nothing of the slope: believe what was learned when they did.
        slope = (together + _TRUST * self._share * ms) / (variation + _TRUST)
        # The base is most of a step, and a row is never free: noise must not say otherwise.
        self.slope_ms = min(max(slope, 0.002 * ms), ms / max(rows, 1.0))
        if variation > 4 * _TRUST:
            self._share += 0.05 * (self.slope_ms / ms - self._share) if ms > 0 else 0.0
