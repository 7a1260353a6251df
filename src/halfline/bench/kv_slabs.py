"""Slab classes: what the articles give a sequence instead of blocks, as one more allocator for allocation.replay."""

from collections import defaultdict
from collections.abc import Sequence

CLASSES = (512, 1024, 2048)
"""Places per slab; a sequence gets the smallest that holds it, and moves to the next when it outgrows it."""


class Slabs:
    """Slabs of fixed sizes, carved from an arena once and reused only for their own class."""

    def __init__(self, classes: Sequence[int] = CLASSES) -> None:
        self._classes = sorted(classes)
        self._held: dict[int, int] = {}  # sequence → size of its slab
        self._num_free: defaultdict[int, int] = defaultdict(int)  # by size
        self.reserved = 0
        self.peak_reserved = 0
        self.peak_span = 0
        self.copied = 0

    @property
    def span(self) -> int:
        """What was carved out: a free slab is of use to its own class alone."""
        return self.peak_span

    def grow(self, sequence: int, num_tokens: int) -> None:
        """Raises ValueError when no class is large enough."""
        old = self._held.get(sequence, 0)
        if num_tokens <= old:
            return
        new = next((size for size in self._classes if size >= num_tokens), None)
        if new is None:
            raise ValueError(f"{num_tokens} tokens do not fit the largest class, {self._classes[-1]}")
        if self._num_free[new]:
            self._num_free[new] -= 1
        else:
            self.peak_span += new
        self._held[sequence] = new
        self.reserved += new
        self.peak_reserved = max(self.peak_reserved, self.reserved)  # while it is copied it holds both
        if old:
            self.copied += old
            self._give_back(old)

    def free(self, sequence: int) -> None:
        self._give_back(self._held.pop(sequence))

    def _give_back(self, size: int) -> None:
        self._num_free[size] += 1
        self.reserved -= size
