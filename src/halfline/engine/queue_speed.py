"""How fast the queue moves, and so when it is worth coming back."""

_NEWS = 0.1  # what the latest departure counts for in the average
_MIN_S, _MAX_S = 1.0, 60.0


class QueueSpeed:
    """A moving average of the seconds from one sequence's end to the next, while there was always something to do."""

    def __init__(self) -> None:
        self._seconds_each: float | None = None
        self._last_at: float | None = None

    def ended(self, count: int, num_left: int, now: float) -> None:
        """So many sequences ended at once, and `num_left` have not. Whoever was made to leave is not counted: that says
        nothing of how fast others are served.
        """
        if self._last_at is not None and count:
            measured = (now - self._last_at) / count
            known = measured if self._seconds_each is None else self._seconds_each
            # `count` departures, each of which counts for _NEWS.
            self._seconds_each = measured + (known - measured) * (1.0 - _NEWS) ** count
        if not num_left:
            self._last_at = None  # the time to the next end says how long nobody came
        elif count:
            self._last_at = now

    def wait_s(self, num_ahead: int) -> float:
        """Seconds until so many more will have ended, between 1 and 60; 1 when nothing is known yet."""
        expected = 0.0 if self._seconds_each is None else self._seconds_each * num_ahead
        return min(max(expected, _MIN_S), _MAX_S)
