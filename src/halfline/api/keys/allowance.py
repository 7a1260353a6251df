"""How much each key may still ask for: so many requests a minute, so many at once.

A token bucket (Turner 1986, "New directions in communications") that holds a minute's worth: a burst is served at
once, and what was used comes back evenly.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from halfline.api.keys.key import Key
from halfline.errors import OverLimit

# How long one completion usually takes, more or less; until when the others of the same key last nobody knows.
_NEXT_PLACE_S = 1.0


@dataclass(slots=True)
class _Used:
    """By one key. `left` requests were left at the time `since`."""

    left: float
    since: float
    num_running: int = 0


class Allowances:
    """Lives on the event loop; remembers only keys that have a limit and were used."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used: dict[str, _Used] = {}

    def spend(self, key: Key) -> None:
        """Count one request. Raises OverLimit when the minute's are used up."""
        if key.per_minute is None:
            return
        used = self._of(key)
        now = self._clock()
        left = min(key.per_minute, used.left + (now - used.since) * key.per_minute / 60)
        if left < 1:
            wait_s = (1 - left) * 60 / key.per_minute
            raise OverLimit(f"the API key {key.id} may ask {key.per_minute} times a minute", wait_s)
        used.left, used.since = left - 1, now

    def enter(self, key: Key) -> None:
        """Take a place for a request that runs, until `leave`. Raises OverLimit when the key has them all."""
        if key.at_once is None:
            return
        used = self._of(key)
        if used.num_running >= key.at_once:
            raise OverLimit(f"the API key {key.id} may have {key.at_once} requests at once", _NEXT_PLACE_S)
        used.num_running += 1

    def leave(self, key: Key) -> None:
        """The place that `enter` took is free again."""
        if key.at_once is not None:
            self._used[key.id].num_running -= 1

    def _of(self, key: Key) -> _Used:
        if key.id not in self._used:
            self._used[key.id] = _Used(float(key.per_minute or 0), self._clock())
        return self._used[key.id]
