"""The bounds of what is kept in memory."""

from random import Random

from halfline.cache.memory import ENTRY_BYTES, Kept, MemoryTier

KEY_BYTES = 4


def room_for(count: int, value_bytes: int) -> int:
    return count * (KEY_BYTES + value_bytes + ENTRY_BYTES)


def test_what_was_used_longest_ago_goes_first() -> None:
    memory = MemoryTier(room_for(2, 3), max_age_s=10.0)
    memory.put(b"aaaa", Kept(b"abc", 0.0))
    memory.put(b"bbbb", Kept(b"def", 0.0))
    assert memory.get(b"aaaa", 1.0) == Kept(b"abc", 0.0)
    memory.put(b"cccc", Kept(b"ghi", 0.0))
    assert memory.get(b"bbbb", 1.0) is None
    assert memory.get(b"aaaa", 1.0) is not None
    assert (len(memory), memory.num_evicted) == (2, 1)


def test_what_is_too_old_is_not_found_and_takes_no_room() -> None:
    memory = MemoryTier(1 << 20, max_age_s=10.0)
    memory.put(b"aaaa", Kept(b"abc", 100.0))
    assert memory.get(b"aaaa", 110.0) is not None
    assert memory.holds(b"aaaa", 110.0)
    assert not memory.holds(b"aaaa", 110.5)
    assert memory.get(b"aaaa", 110.5) is None
    assert memory.num_bytes == 0


def test_a_clock_that_was_put_back_keeps_nothing_for_years() -> None:
    memory = MemoryTier(1 << 20, max_age_s=10.0)
    memory.put(b"soon", Kept(b"abc", 109.0))
    memory.put(b"far", Kept(b"abc", 1e9))
    assert memory.holds(b"soon", 100.0) and not memory.holds(b"far", 100.0)
    assert memory.get(b"soon", 100.0) is not None
    assert memory.get(b"far", 100.0) is None
    assert len(memory) == 1


def test_what_comes_late_from_elsewhere_replaces_only_what_is_older() -> None:
    memory = MemoryTier(1 << 20, max_age_s=10.0)
    memory.put(b"aaaa", Kept(b"abc", 100.0))
    memory.put_older(b"aaaa", Kept(b"old", 99.0))
    assert memory.get(b"aaaa", 101.0) == Kept(b"abc", 100.0)
    memory.put_older(b"aaaa", Kept(b"new", 101.0))
    memory.put_older(b"bbbb", Kept(b"def", 1.0))
    assert memory.get(b"aaaa", 101.0) == Kept(b"new", 101.0)
    assert not memory.holds(b"bbbb", 101.0)
    memory.check()


def test_a_value_that_never_fits_is_passed_over_and_takes_the_old_one_with_it() -> None:
    memory = MemoryTier(room_for(1, 3), max_age_s=10.0)
    memory.put(b"aaaa", Kept(b"abc", 0.0))
    memory.put(b"aaaa", Kept(bytes(1000), 0.0))
    assert memory.get(b"aaaa", 0.0) is None
    memory.check()


def test_bytes_are_counted_right_whatever_is_done() -> None:
    random = Random(7)
    memory = MemoryTier(room_for(10, 20), max_age_s=5.0)
    for now in range(2000):
        key = b"%04d" % random.randrange(30)
        if random.random() < 0.5:
            memory.put(key, Kept(random.randbytes(random.randrange(60)), float(now)))
        else:
            kept = memory.get(key, float(now))
            assert kept is None or now - kept.stored_at <= 5.0
        memory.check()
    assert memory.num_evicted > 0
