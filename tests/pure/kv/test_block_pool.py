"""Blocks are held, cached or blank, and never two of these."""

import pytest

from halfline.errors import InvariantBroken
from halfline.kv.block_pool import BlockPool

NOTHING: frozenset[int] = frozenset()


def test_taking_is_all_or_nothing() -> None:
    pool = BlockPool(3)
    pool.take(2)
    assert pool.take(2) is None
    assert pool.num_free == 1
    assert pool.take(1) is not None
    pool.check()


def test_a_shared_block_is_free_only_after_its_last_holder_leaves() -> None:
    pool = BlockPool(1)
    block_ids = pool.take(1)
    assert block_ids is not None
    pool.share(block_ids)
    pool.give_back(block_ids, NOTHING)
    assert pool.num_free == 0
    pool.give_back(block_ids, NOTHING)
    assert pool.num_free == 1
    pool.check()


def test_blank_blocks_are_taken_before_cached_ones_and_of_those_the_longest_idle_first() -> None:
    pool = BlockPool(4)
    block_ids = pool.take(4)
    assert block_ids is not None
    a, b, c, d = block_ids
    pool.give_back([b], worth_keeping={b})
    pool.give_back([c], worth_keeping={c})
    pool.give_back([a], NOTHING)
    assert pool.take(3) == [a, b, c]
    assert pool.num_holders(d) == 1


def test_a_cached_block_that_is_shared_again_is_no_longer_first_to_go() -> None:
    pool = BlockPool(2)
    block_ids = pool.take(2)
    assert block_ids is not None
    a, b = block_ids
    pool.give_back([a, b], worth_keeping={a, b})
    pool.share([a])
    pool.give_back([a], worth_keeping={a})
    assert pool.take(2) == [b, a]


def test_giving_back_more_often_than_holding_is_an_error_that_changes_nothing() -> None:
    pool = BlockPool(2)
    block_ids = pool.take(1)
    assert block_ids is not None
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


def test_check_notices_a_leak() -> None:
    pool = BlockPool(2)
    pool._blank.pop()
    with pytest.raises(InvariantBroken, match="overlap or leak"):
        pool.check()
