"""Answers by key: in memory first, behind it what outlives the process or is shared with others.

    get ──▶ memory ──(a key that may be there)──▶ disk ──▶ Redis        fetch, and what is found comes into memory
    put ──▶ memory, and a moment later ──────────▶ disk, Redis

`get` and `put` cost microseconds and touch neither disk nor network. Keys are digests of everything that decides a
value (cache/exact.py), so a value is right wherever it was found, or it is not found.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from halfline.cache.behind import PATIENCE_S, Behind, SlowTier
from halfline.cache.memory import Kept, MemoryTier
from halfline.cache.options import CacheOptions
from halfline.cache.redis_tier import RedisTier
from halfline.cache.sqlite_tier import SqliteTier

LookupTier = Literal["exact", "http", "syntax"]


class Store:
    """Lives on the event loop; the slow tiers have a thread each."""

    def __init__(
        self,
        memory: MemoryTier,
        slow: Sequence[SlowTier] = (),
        warm_bytes: int = 0,
        clock: Callable[[], float] = time.time,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`patience_s`: how long whoever fetches waits for a slow tier at most."""
        self._memory = memory
        self._clock = clock
        self._warmed: list[list[tuple[bytes, Kept]]] = []  # put by a slow tier's thread, taken by ours
        self._behind = [Behind(tier, self._warmed.append, warm_bytes, clock, patience_s) for tier in slow]
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lookups: Counter[tuple[str, str]] = Counter()
        for each in self._behind:
            each.start()

    def get(self, key: bytes, tier: LookupTier) -> bytes | None:
        """What is in memory. One call for each time that a tier looks."""
        self._take_over()
        kept = self._memory.get(key, self._clock())
        self._counts["memory", "miss" if kept is None else "hit"] += 1
        self._lookups[tier, "nothing" if kept is None else "answer"] += 1
        if kept is None:
            return None
        for each in self._behind:
            each.used(key)
        return kept.value

    def holds(self, key: bytes) -> bool:
        """Whether `get` would find it; counts as no use."""
        self._take_over()
        return self._memory.holds(key, self._clock())

    def may_fetch(self, key: bytes) -> bool:
        """Whether a slow tier may hold what memory does not."""
        return any(each.may_hold(key) for each in self._behind)

    async def fetch(self, key: bytes) -> bytes | None:
        """What a slow tier holds; from then on memory does."""
        for each in self._behind:
            if each.may_hold(key):
                kept = await each.get(key)
                self._counts[each.tier.name, "miss" if kept is None else "hit"] += 1
                if kept is not None:
                    self._memory.put_older(key, kept)
                    return kept.value
        return None

    def want(self, key: bytes) -> None:
        """Have it in memory for the next time, if a slow tier holds it."""
        for each in self._behind:
            if each.may_hold(key):
                self._counts[each.tier.name, "wanted"] += 1
                each.ask(key, lambda kept: None if kept is None else self._warmed.append([(key, kept)]))
                return

    def put(self, key: bytes, value: bytes) -> None:
        """In place of what was there, everywhere."""
        kept = Kept(value, self._clock())
        self._memory.put(key, kept)
        self._counts["memory", "put"] += 1
        for each in self._behind:
            each.put(key, kept)

    def age_s(self, key: bytes) -> float | None:
        """Seconds since what memory holds was put; None when it holds nothing."""
        kept = self._memory.get(key, self._clock())
        return None if kept is None else max(0.0, self._clock() - kept.stored_at)

    def flush(self) -> None:
        """Wait until the slow tiers have written what was put so far. Blocks."""
        for each in self._behind:
            each.flush()

    def close(self) -> None:
        """Write what is left and let go. Blocks."""
        for each in self._behind:
            each.close()

    @property
    def num_bytes(self) -> int:
        """In memory."""
        return self._memory.num_bytes

    def counts(self) -> Mapping[tuple[str, str], int]:
        """By place (memory, disk, redis) and event. They only ever rise.

        hit, miss: it was asked by somebody who waited · wanted: for the next time, nobody waited · put · evicted ·
        failed: a disk or Redis did not do what it was asked · late: nobody waited any longer · let_go: was not written,
        because too much was put
        """
        counts = dict(self._counts)
        counts["memory", "evicted"] = self._memory.num_evicted
        for each in self._behind:
            counts[each.tier.name, "failed"] = each.tier.num_failures
            counts[each.tier.name, "let_go"] = each.num_let_go
            counts[each.tier.name, "late"] = each.num_late
        return counts

    def lookups(self) -> Mapping[tuple[str, str], int]:
        """How often each tier looked, and whether it found an answer or nothing. They only ever rise."""
        return dict(self._lookups)

    def check(self) -> None:
        """Raise InvariantBroken when memory is not as it is counted."""
        self._memory.check()

    def _take_over(self) -> None:
        while self._warmed:
            for key, kept in reversed(self._warmed.pop()):  # what was used last ends up as such
                self._memory.put_older(key, kept)


def open_store(options: CacheOptions, directory: Path) -> Store:
    """As the options say; files lie in the directory. Returns at once: the slow tiers come up in their threads."""
    slow: list[SlowTier] = []
    if options.disk_bytes:
        slow.append(SqliteTier(directory / "answers.sqlite", options.disk_bytes, options.max_age_s))
    if options.redis_url is not None:
        slow.append(RedisTier(options.redis_url, options.max_age_s))
    return Store(MemoryTier(options.memory_bytes, options.max_age_s), slow, options.memory_bytes // 2)
