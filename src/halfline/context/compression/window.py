"""Lines that were there before, found while a window slides over the text (A7, incremental deduplication).

    lines      a b c d e f b c d e g          window of 4
    windows    abcd bcde cdef ... bcde cdeg   the second bcde was seen: its lines go
                                  ^^^^

A window is known by a polynomial hash (`updateRollingHash`: base 31, modulo the largest prime below 2^64) that is
updated in O(1) as a line comes in and the oldest goes out; a sum of hashes would not see order. A Bloom filter says
quickly that a window is new; what it does not say is looked up by content, so neither a false positive nor a collision
ever drops a line that is nowhere else. A Bloom filter cannot forget: there are two, and when the younger is full the
older goes, together with what it stood for.
"""

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from rbloom import Bloom

from halfline.context.compression.passes import Budget, LinedPart, Shrunk, without

BASE = 31
MODULUS = 2**64 - 59

WINDOW_LINES = 3
_MAX_WINDOWS = 1 << 14  # of a generation
_ERROR_RATE = 0.01  # 9.6 bits for each window

Item = TypeVar("Item", bound=Hashable)


def update_rolling_hash(value: int, leaving: int | None, entering: int, leading_power: int) -> int:
    """The hash of a window that moved by one. `leaving` None: it grew instead. `leading_power` is BASE to the power
    of one less than the window's size, modulo MODULUS. Whole numbers here are never too small for sums or products.
    """
    if leaving is not None:
        value -= (leaving + 1) * leading_power
    # One is added so that a line of hash zero counts.
    return (value * BASE + entering + 1) % MODULUS


def full_hash(values: Sequence[int]) -> int:
    """The same from the beginning: sum of (value + 1) BASE^(distance from the end)."""
    return (
        sum((value + 1) * pow(BASE, len(values) - 1 - i, MODULUS) for i, value in enumerate(values)) % MODULUS
    )


class RollingHash:
    """Of the last `size` values that were pushed."""

    def __init__(self, size: int) -> None:
        self._values: deque[int] = deque()
        self._size = size
        self._power = pow(BASE, size - 1, MODULUS)
        self.value = 0

    @property
    def is_full(self) -> bool:
        return len(self._values) == self._size

    def push(self, value: int) -> int:
        leaving = self._values.popleft() if self.is_full else None
        self._values.append(value)
        self.value = update_rolling_hash(self.value, leaving, value, self._power)
        return self.value


class RecentItems(Generic[Item]):
    """The latest items, at least `capacity` and at most twice as many: Bloom filters before an exact look-up.

    `num_false` counts items that a filter took for known and the look-up did not.
    """

    def __init__(self, capacity: int = _MAX_WINDOWS, error_rate: float = _ERROR_RATE) -> None:
        self._capacity = capacity
        self._error_rate = error_rate
        self._young, self._old = self._new(), self._new()
        self.num_false = 0

    def add(self, key: int, item: Item) -> None:
        """`key` is a hash of the item."""
        if self._young[2] >= self._capacity:
            self._old, self._young = self._young, self._new()
        bloom, items, count = self._young
        bloom.add(key)
        items.setdefault(key, set()).add(item)
        self._young = bloom, items, count + 1

    def knows(self, key: int, item: Item) -> bool:
        probable = False
        for bloom, items, _ in (self._young, self._old):
            if key in bloom:
                if item in items.get(key, ()):
                    return True
                probable = True
        self.num_false += probable
        return False

    def _new(self) -> tuple[Bloom, dict[int, set[Item]], int]:
        return Bloom(self._capacity, self._error_rate), {}, 0


class Duplicates:
    """Leaves out lines that stand in a run of `window_lines` which was there before: in the text around the cursor, or
    in an earlier part. Space around lines does not count, and empty lines are passed over.
    """

    def __init__(self, window_lines: int = WINDOW_LINES) -> None:
        self._window_lines = window_lines

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        seen: RecentItems[tuple[str, ...]] = RecentItems()
        for text in (budget.before, budget.behind):
            self._repeated(text.splitlines(), seen)
        cut = set()
        for place, part in enumerate(parts):
            for position in self._repeated([line.text for line in part.lines], seen):
                cut.add((place, position))
        return without(parts, cut, "duplicate")

    def _repeated(self, lines: Sequence[str], seen: RecentItems[tuple[str, ...]]) -> set[int]:
        """Positions of lines in windows that were seen; every window is remembered.

        Each such line stands at an earlier place too, so the first of equal lines always stays.
        """
        rolling = RollingHash(self._window_lines)
        window: deque[tuple[int, str]] = deque(maxlen=self._window_lines)
        repeated: set[int] = set()
        for position, line in enumerate(lines):
            text = line.strip()
            if not text:
                continue
            window.append((position, text))
            key = rolling.push(hash(text) % MODULUS)
            if not rolling.is_full:
                continue
            item = tuple(text for _, text in window)
            if seen.knows(key, item):
                repeated.update(place for place, _ in window)
            else:
                seen.add(key, item)
        return repeated
