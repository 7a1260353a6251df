"""How long somebody usually waits between two keystrokes, and so how long one may compute ahead."""

_LIKE_ANYBODY_S = 0.15
_SHORTEST_S, _LONGEST_S = 0.05, 1.0
_NEWS = 0.2  # what the latest pause counts for


class Pauses:
    """Of one cursor. Times are the clock's seconds."""

    def __init__(self) -> None:
        self._usual_s = _LIKE_ANYBODY_S
        self._last_at: float | None = None

    def keystroke(self, now: float) -> None:
        """Pauses of more than a second are somebody who thinks: they count as one second."""
        if self._last_at is not None:
            pause = min(max(now - self._last_at, _SHORTEST_S), _LONGEST_S)
            self._usual_s += (pause - self._usual_s) * _NEWS
        self._last_at = now

    @property
    def usual_s(self) -> float:
        return self._usual_s
