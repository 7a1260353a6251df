"""Memory in front, a slow tier behind it that nobody waits for."""

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path

from halfline.cache.behind import Behind
from halfline.cache.exact import ExactAnswers, Told
from halfline.cache.memory import Kept, MemoryTier
from halfline.cache.options import CacheOptions
from halfline.cache.sqlite_tier import SqliteTier
from halfline.cache.store import Store, open_store
from halfline.sampling.sampler import Scored


class SlowDict:
    """A tier whose thread stands still until `go` is set."""

    name = "slow"
    num_failures = 0

    def __init__(self) -> None:
        self.kept: dict[bytes, Kept] = {}
        self.go = threading.Event()
        self.threads: set[str] = set()

    def open(self) -> None: ...
    def close(self) -> None: ...
    def refresh(self) -> None: ...
    def check(self) -> None: ...

    def may_hold(self, key: bytes) -> bool:
        return key in self.kept

    def newest(self, max_bytes: int) -> list[tuple[bytes, Kept]]:
        return list(self.kept.items()) if max_bytes else []

    def get(self, key: bytes, now: float) -> Kept | None:
        self.go.wait(60)
        self.threads.add(threading.current_thread().name)
        return self.kept.get(key)

    def put(self, entries: Collection[tuple[bytes, Kept]], used: Collection[bytes], now: float) -> None:
        self.go.wait(60)
        self.threads.add(threading.current_thread().name)
        self.kept |= dict(entries)


def run(main: Callable[[], Coroutine[None, None, None]]) -> None:
    async def patient() -> None:
        async with asyncio.timeout(60):
            await main()

    asyncio.run(patient())


def test_nobody_waits_for_a_slow_tier_but_who_fetches() -> None:
    async def main() -> None:
        slow = SlowDict()
        slow.kept[b"there"] = Kept(b"old", 0.0)
        store = Store(MemoryTier(1 << 20, 100.0), [slow], clock=lambda: 1.0, patience_s=60.0)
        assert store.get(b"there", "exact") is None and store.may_fetch(b"there")
        fetching = asyncio.create_task(store.fetch(b"there"))
        await asyncio.sleep(0)
        store.put(b"new", b"value")
        assert store.get(b"new", "exact") == b"value"
        assert not fetching.done() and not slow.threads, "the slow tier stands still"
        slow.go.set()
        assert await fetching == b"old"
        assert store.get(b"there", "exact") == b"old", "now in memory"
        await asyncio.to_thread(store.flush)
        assert slow.kept[b"new"].value == b"value"
        assert slow.threads == {"cache-slow"}
        counts = store.counts()
        assert (counts["slow", "hit"], counts["memory", "put"], counts["memory", "hit"]) == (1, 1, 2)
        store.check()
        store.close()

    run(main)


def test_nobody_waits_for_a_tier_that_hangs_and_it_is_asked_again_when_it_goes_on() -> None:
    async def main() -> None:
        slow = SlowDict()
        slow.kept |= {b"there": Kept(b"old", 0.0), b"other": Kept(b"old", 0.0)}
        store = Store(MemoryTier(1 << 20, 100.0), [slow], clock=lambda: 1.0, patience_s=0.01)
        assert await asyncio.gather(store.fetch(b"there"), store.fetch(b"other")) == [None, None]
        assert store.counts()["slow", "late"] == store.counts()["slow", "miss"] == 2
        while store.may_fetch(b"there"):  # until it is known to hang
            await asyncio.sleep(0.001)
        store.want(b"there")
        assert await store.fetch(b"there") is None
        assert store.counts()["slow", "late"] == 2 and ("slow", "wanted") not in store.counts()
        slow.go.set()
        while await store.fetch(b"there") != b"old":
            await asyncio.sleep(0.001)
        await asyncio.to_thread(store.close)

    run(main)


def test_a_store_is_closed_although_a_tier_hangs() -> None:
    slow = SlowDict()
    store = Store(MemoryTier(1 << 20, 100.0), [slow], patience_s=0.001)
    store.put(b"key", b"value")
    store.close()
    assert not slow.kept
    slow.go.set()


def test_what_waits_for_a_tier_that_hangs_is_bounded_in_bytes() -> None:
    async def main() -> None:
        slow = SlowDict()
        store = Store(MemoryTier(1 << 20, 100.0), [slow], patience_s=0.01)
        large = bytes(1 << 22)
        store.put(b"first", b"value")
        for number in range(40):  # 160 MiB, of which 64 may wait
            store.put(b"key", large)
            store.put(b"key %d" % number, large)
        assert store.counts()["slow", "let_go"] >= 8
        slow.go.set()
        await asyncio.to_thread(store.flush)
        assert len(slow.kept) <= 34 and b"key 39" in slow.kept
        await asyncio.to_thread(store.close)

    run(main)


def test_what_is_put_is_written_although_something_is_asked_all_the_time() -> None:
    slow = SlowDict()
    slow.go.set()
    behind = Behind(slow)
    asked_in_vain = threading.Event()
    num_asked = 0

    def ask_again(kept: Kept | None) -> None:
        nonlocal num_asked
        num_asked += 1
        if not slow.kept and num_asked < 100_000:
            behind.ask(b"other", ask_again)
        else:
            asked_in_vain.set()

    behind.ask(b"other", ask_again)
    behind.put(b"key", Kept(b"value", 0.0))
    behind.start()
    assert asked_in_vain.wait(60)
    assert slow.kept and num_asked < 1000
    behind.close()


def test_what_is_wanted_is_in_memory_the_next_time() -> None:
    async def main() -> None:
        slow = SlowDict()
        slow.go.set()
        slow.kept[b"there"] = Kept(b"old", 0.0)
        store = Store(MemoryTier(1 << 20, 100.0), [slow], clock=lambda: 1.0)
        store.want(b"there")
        store.want(b"not there")
        while not store.holds(b"there"):
            await asyncio.sleep(0.001)
        store.close()

    run(main)


def test_what_a_closed_store_is_asked_for_is_not_there(tmp_path: Path) -> None:
    async def main() -> None:
        store = open_store(CacheOptions(disk_bytes=1 << 20), tmp_path)  # type: ignore[arg-type]
        store.put(b"key", b"value")
        await asyncio.to_thread(store.close)
        assert await store.fetch(b"key") in (None, b"value")
        store.put(b"other", b"value")

    run(main)


class Broken(SlowDict):
    def get(self, key: bytes, now: float) -> Kept | None:
        raise ZeroDivisionError


def test_whoever_asks_a_tier_that_breaks_is_answered_and_the_rest_goes_on() -> None:
    async def main() -> None:
        tier = Broken()
        tier.kept |= {b"one": Kept(b"1", 0.0), b"two": Kept(b"2", 0.0)}
        store = Store(MemoryTier(1 << 20, 100.0), [tier], clock=lambda: 1.0)
        assert await asyncio.gather(*(store.fetch(key) for key in (b"one", b"two", b"one"))) == [None] * 3
        store.put(b"three", b"3")
        assert store.get(b"three", "exact") == b"3"
        assert await store.fetch(b"two") is None, "also when its thread has ended"
        await asyncio.to_thread(store.flush)
        await asyncio.to_thread(store.close)

    run(main)


def test_a_store_begins_with_what_the_last_one_used_last(tmp_path: Path) -> None:
    async def main() -> None:
        options = CacheOptions(disk_bytes=1 << 20)  # type: ignore[arg-type]
        first = open_store(options, tmp_path)
        for number in range(100):
            first.put(b"key %d" % number, b"value %d" % number)
        await asyncio.to_thread(first.close)
        second = open_store(options, tmp_path)
        while not second.holds(b"key 99"):
            await asyncio.sleep(0.001)
        assert second.get(b"key 7", "exact") == b"value 7"
        await asyncio.to_thread(second.close)

    run(main)


def test_what_is_too_old_in_memory_hides_nothing_fresher_behind_it() -> None:
    async def main() -> None:
        now = [1000.0]
        slow = SlowDict()
        slow.go.set()
        store = Store(MemoryTier(1 << 20, 100.0), [slow], clock=lambda: now[0], patience_s=60.0)
        store.put(b"key", b"old")
        await asyncio.to_thread(store.flush)
        now[0] = 1101.0
        slow.kept[b"key"] = Kept(b"fresh", 1100.0)  # by another process
        assert not store.holds(b"key") and store.may_fetch(b"key")
        assert await store.fetch(b"key") == b"fresh"
        assert store.holds(b"key") and store.get(b"key", "exact") == b"fresh"
        await asyncio.to_thread(store.close)

    run(main)


def test_two_stores_share_one_file(tmp_path: Path) -> None:
    async def main() -> None:
        options = CacheOptions(disk_bytes=1 << 20)  # type: ignore[arg-type]
        stores = [open_store(options, tmp_path) for _ in range(2)]
        stores[0].put(b"key", b"value")
        while not stores[1].may_fetch(b"key"):  # until it has looked
            await asyncio.sleep(0.01)
        while await stores[1].fetch(b"key") != b"value":
            await asyncio.sleep(0.01)
        for store in stores:
            await asyncio.to_thread(store.close)

    run(main)


def test_answers_of_another_model_or_another_question_are_not_found() -> None:
    store = Store(MemoryTier(1 << 20, 100.0))
    one, other = ExactAnswers(store, b"model one"), ExactAnswers(store, b"model two")
    told = (Told((Scored(3, -0.1, ((3, -0.1), (4, float("-inf")))), Scored(4)), "stop"),)
    one.put(one.address(b"question"), told)
    assert one.get(one.address(b"question")) == told
    assert one.get(one.address(b"another")) is None
    assert other.get(other.address(b"question")) is None


def test_an_answer_that_was_called_off_is_not_kept() -> None:
    answers = ExactAnswers(Store(MemoryTier(1 << 20, 100.0)), b"")
    answers.put(b"address", (Told((), "stop"), Told((), "cancelled")))
    assert answers.get(b"address") is None


def test_a_damaged_file_under_a_store_only_makes_it_slower(tmp_path: Path) -> None:
    async def main() -> None:
        tmp_path.joinpath("answers.sqlite").write_bytes(b"no database" * 999)
        store = Store(MemoryTier(1 << 20, 1e12), [SqliteTier(tmp_path / "answers.sqlite", 1 << 20, 1e12)])
        store.put(b"key", b"value")
        await asyncio.to_thread(store.flush)
        assert store.get(b"key", "exact") == b"value" and await store.fetch(b"key") in (None, b"value")
        await asyncio.to_thread(store.close)
        assert store.counts()["disk", "failed"] == 1

    run(main)
