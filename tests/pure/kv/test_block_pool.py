"""Blocks are held, cached or blank, and never two of these."""

from collections.abc import Callable

import pytest

from halfline.errors import InvariantBroken
from halfline.kv.block_pool import BlockPool, Worth


def all_worth(worth: Worth) -> Callable[[int], Worth]:
    return lambda block_id: worth


NOTHING, TAIL, BLOCK = map(all_worth, (Worth.NOTHING, Worth.TAIL, Worth.BLOCK))


def full_pool(num_blocks: int) -> tuple[BlockPool, list[int]]:
    """A pool whose blocks are all held once."""
    pool = BlockPool(num_blocks)
    block_ids = pool.take(num_blocks)
    assert block_ids is not None
    return pool, block_ids


def test_taking_is_all_or_nothing() -> None:
    pool = BlockPool(3)
    pool.take(2)
    assert pool.take(2) is None
    assert pool.num_free == 1
    assert pool.take(1) is not None
    pool.check()


def test_a_shared_block_is_free_only_after_its_last_holder_leaves() -> None:
    pool, block_ids = full_pool(1)
    pool.share(block_ids)
    pool.give_back(block_ids, NOTHING)
    assert pool.num_free == 0
    pool.give_back(block_ids, NOTHING)
    assert pool.num_free == 1
    pool.check()


def test_blank_blocks_go_first_then_tails_then_full_ones_of_each_the_longest_idle() -> None:
    pool, (a, b, c, d, e, f) = full_pool(6)
    pool.give_back([b], BLOCK)
    pool.give_back([c], TAIL)
    pool.give_back([d], BLOCK)
    pool.give_back([e], TAIL)
    pool.give_back([a], NOTHING)
    assert pool.take(5) == [a, c, e, b, d]
    assert pool.num_holders(f) == 1


def test_evictions_are_counted_by_what_was_lost() -> None:
    pool, (a, b, c) = full_pool(3)
    pool.give_back([a], NOTHING)
    pool.give_back([b], TAIL)
    pool.give_back([c], BLOCK)
    assert (pool.num_cached, pool.num_free) == (2, 3)
    pool.take(3)
    assert [pool.num_evicted(worth) for worth in Worth] == [0, 1, 1]


@pytest.mark.parametrize("worth", [TAIL, BLOCK])
def test_a_cached_block_that_is_shared_again_is_no_longer_first_to_go(worth: Callable[[int], Worth]) -> None:
    pool, (a, b) = full_pool(2)
    pool.give_back([a, b], worth)
    pool.share([a])
    pool.give_back([a], worth)
    assert pool.take(2) == [b, a]


def test_a_failed_take_leaves_the_order_of_eviction_as_it_was() -> None:
    pool, (a, b, c) = full_pool(3)
    pool.give_back([b, a], BLOCK)
    assert pool.take(3) is None
    assert pool.take(2) == [b, a]
    assert pool.num_holders(c) == 1


def test_giving_back_more_often_than_holding_is_an_error_that_changes_nothing() -> None:
    pool, block_ids = full_pool(2)
    pool.give_back(block_ids, NOTHING)
    with pytest.raises(InvariantBroken, match="more often than it was held"):
        pool.give_back(block_ids, NOTHING)
    assert pool.num_free == 2
    pool.check()


def test_a_blank_block_cannot_be_revived() -> None:
    pool = BlockPool(1)
    with pytest.raises(InvariantBroken, match="nothing to share"):
        pool.share([0])
    pool.check()
