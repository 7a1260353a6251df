"""The mean of a prompt's hidden states, gathered while the prompt is computed."""

import numpy as np
from numpy.typing import NDArray


class HiddenMean:
    """Belongs to one sequence, as its sampler does. Every place counts once, however often it is computed.

    The engine's thread adds; whoever asked reads `mean` after the sequence has ended.
    """

    def __init__(self, num_places: int) -> None:
        self._num_places = num_places
        self._num_added = 0
        self._total: NDArray[np.float64] | None = None

    @property
    def complete(self) -> bool:
        return self._num_added == self._num_places

    def missing(self, start: int, stop: int) -> range:
        """Which of the places [start, stop) are still wanted."""
        return range(max(start, self._num_added), min(stop, self._num_places))

    def add(self, hidden: NDArray[np.float32]) -> None:
        """The next places' states, float32 [places, hidden size], in order. Summed in float64, one after the other, so
        that the mean does not depend on how the prompt was cut.
        """
        for row in hidden:
            self._total = row.astype(np.float64) if self._total is None else self._total + row
        self._num_added += len(hidden)

    @property
    def mean(self) -> NDArray[np.float64]:
        """float64 [hidden size]. Only when `complete`."""
        assert self._total is not None and self.complete
        return self._total / self._num_places
