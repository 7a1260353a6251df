"""Pinned blocks stay: whoever comes, whoever goes, within their bound, until the model goes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.errors import InvariantBroken
from halfline.kv.block_pool import BlockPool
from halfline.kv.block_table import BlockTable, check_accounts
from halfline.kv.pins import Pins
from halfline.kv.prefix_index import PrefixIndex

BLOCK = 16


class World:
    def __init__(self, num_blocks: int, max_blocks: int) -> None:
        self.pool, self.index = BlockPool(num_blocks), PrefixIndex()
        self.pins = Pins(self.pool, self.index, max_blocks)

    def run(self, tokens: list[int], num_pinned: int, *, num_computed: int | None = None) -> int:
        """One sequence from admission to its end; how many tokens it found known."""
        table = BlockTable(self.pool, self.index, "n")
        found = table.adopt(table.match(tokens))
        assert table.grow(len(tokens))
        table.copied()
        table.publish(tokens, len(tokens) if num_computed is None else num_computed)
        table.pin(self.pins, num_pinned)
        table.release()
        self.check()
        return found

    def check(self) -> None:
        check_accounts(self.pool, self.index, [], self.pins)


def head(kind: int, num_blocks: int = 2) -> list[int]:
    return [kind] * (BLOCK * num_blocks)


def test_a_pinned_beginning_is_found_after_everything_else_was_pushed_out() -> None:
    world = World(num_blocks=8, max_blocks=2)
    world.run([*head(1), 7], num_pinned=40)
    for other in range(100, 140):
        world.run([other] * 80, num_pinned=0)
    assert world.run([*head(1), 8], num_pinned=40) == 2 * BLOCK
    assert world.run([*[100] * 80], num_pinned=0) == 0


def test_only_full_blocks_of_what_is_constant_are_pinned() -> None:
    world = World(num_blocks=8, max_blocks=8)
    world.run([*head(1, 3), 7], num_pinned=2 * BLOCK + 15)
    assert world.pins.num_blocks == 2


def test_of_too_many_the_longest_unused_goes() -> None:
    world = World(num_blocks=12, max_blocks=4)
    for kind in (1, 2, 1, 3):
        world.run([*head(kind), 0], num_pinned=2 * BLOCK)
    for other in range(100, 140):
        world.run([other] * 80, num_pinned=0)
    assert [world.run([*head(kind), 9], 0) for kind in (1, 3, 2)] == [2 * BLOCK, 2 * BLOCK, 0]


def test_a_beginning_longer_than_the_bound_and_one_that_was_not_computed_are_passed_over() -> None:
    world = World(num_blocks=12, max_blocks=2)
    world.run([*head(1, 3), 0], num_pinned=3 * BLOCK)
    world.run([*head(2, 2), 0], num_pinned=2 * BLOCK, num_computed=BLOCK)
    assert world.pins.num_blocks == 0


def test_when_the_model_goes_nothing_is_held_any_more() -> None:
    world = World(num_blocks=8, max_blocks=4)
    world.run([*head(1), 0], num_pinned=2 * BLOCK)
    assert world.pool.num_held == 2
    world.pins.release_all()
    world.check()
    assert world.pool.num_held == 0


def test_the_check_sees_a_pinned_block_that_somebody_gave_back() -> None:
    world = World(num_blocks=8, max_blocks=4)
    world.run([*head(1), 0], num_pinned=2 * BLOCK)
    world.pool.give_back(world.pins.held_ids()[-1:], world.index.worth)
    with pytest.raises(InvariantBroken, match="is held 1 times"):
        world.check()


def test_the_check_sees_pins_that_are_miscounted_too_many_or_cannot_be_found() -> None:
    world = World(num_blocks=8, max_blocks=4)
    world.run([*head(1), 0], num_pinned=2 * BLOCK)
    world.pins.check()
    world.pins.num_blocks = 1
    with pytest.raises(InvariantBroken, match="2 blocks are pinned, counted 1"):
        world.pins.check()
    world.pins.num_blocks, world.pins._max_blocks = 2, 1
    with pytest.raises(InvariantBroken, match="2 blocks are pinned"):
        world.pins.check()
    world.pins._max_blocks = 4
    world.index.forget(world.pins.held_ids()[:1])
    with pytest.raises(InvariantBroken, match="cannot be found"):
        world.pins.check()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(0, 70)), max_size=40))
def test_whatever_runs_the_books_agree(runs: list[tuple[int, int, int]]) -> None:
    world = World(num_blocks=10, max_blocks=5)
    for kind, num_blocks, num_pinned in runs:
        world.run([*head(kind, num_blocks), 9], min(num_pinned, num_blocks * BLOCK))
    world.pins.release_all()
    world.check()
