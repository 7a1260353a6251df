"""Values by key in memory: a bound on their bytes, and one on their age."""

from collections import OrderedDict
from typing import NamedTuple

from halfline.errors import InvariantBroken

ENTRY_BYTES = 256
"""What an entry takes besides its key and value."""


class Kept(NamedTuple):
    """`stored_at` in seconds since 1970, which other processes agree on."""

    value: bytes
    stored_at: float

    def too_old(self, now: float, max_age_s: float) -> bool:
        """Clocks go wrong, and are put right: what comes from as far in the future is not kept until then either."""
        return abs(now - self.stored_at) > max_age_s


class MemoryTier:
    """What was used longest ago goes first. For one thread."""

    def __init__(self, max_bytes: int, max_age_s: float) -> None:
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._entries: OrderedDict[bytes, Kept] = OrderedDict()
        self.num_bytes = 0
        self.num_evicted = 0

    def __len__(self) -> int:
        return len(self._entries)

    def holds(self, key: bytes, now: float) -> bool:
        """Whether `get` would find it; counts as no use."""
        kept = self._entries.get(key)
        return kept is not None and not kept.too_old(now, self._max_age_s)

    def get(self, key: bytes, now: float) -> Kept | None:
        """None when it is not there or too old."""
        kept = self._entries.get(key)
        if kept is None:
            return None
        if kept.too_old(now, self._max_age_s):
            self.drop(key)
            return None
        self._entries.move_to_end(key)
        return kept

    def put(self, key: bytes, kept: Kept) -> None:
        """In place of what was there. A value that never fits is passed over."""
        self.drop(key)
        if _num_bytes(key, kept) > self._max_bytes:
            return
        self._entries[key] = kept
        self.num_bytes += _num_bytes(key, kept)
        while self.num_bytes > self._max_bytes:
            self.drop(next(iter(self._entries)))
            self.num_evicted += 1

    def put_older(self, key: bytes, kept: Kept) -> None:
        """As `put`, but what is there and as fresh stays."""
        there = self._entries.get(key)
        if there is None or there.stored_at < kept.stored_at:
            self.put(key, kept)

    def drop(self, key: bytes) -> None:
        kept = self._entries.pop(key, None)
        if kept is not None:
            self.num_bytes -= _num_bytes(key, kept)

    def check(self) -> None:
        """Raise InvariantBroken unless the bytes are counted right and within their bound. Walks everything."""
        num_bytes = sum(_num_bytes(key, kept) for key, kept in self._entries.items())
        if num_bytes != self.num_bytes or num_bytes > self._max_bytes:
            raise InvariantBroken(
                f"{num_bytes} bytes are kept, {self.num_bytes} are counted, {self._max_bytes} allowed"
            )


def _num_bytes(key: bytes, kept: Kept) -> int:
    return len(key) + len(kept.value) + ENTRY_BYTES
