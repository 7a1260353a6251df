"""What a table takes over, copies, publishes and gives back."""

import pytest

from halfline.kv.block_pool import BlockPool, Worth
from halfline.kv.block_table import BlockCopy, BlockTable, check_accounts
from halfline.kv.prefix_index import PrefixIndex

BLOCK = 16


class Books:
    """Pool, index, and tables whose tokens are computed at once."""

    def __init__(self, num_blocks: int) -> None:
        self.pool, self.index = BlockPool(num_blocks), PrefixIndex()
        self.tables: list[BlockTable] = []

    def table(self) -> BlockTable:
        table = BlockTable(self.pool, self.index, "me")
        self.tables.append(table)
        return table

    def computed(self, tokens: list[int]) -> BlockTable:
        table = self.table()
        table.adopt(table.match(tokens))
        assert table.grow(len(tokens))
        table.copied()
        table.publish(tokens, len(tokens))
        return table

    def finished(self, tokens: list[int]) -> list[int]:
        """The blocks a sequence left behind."""
        table = self.computed(tokens)
        block_ids = table.block_ids
        table.publish_tail(tokens, len(tokens))
        table.release()
        self.check()
        return block_ids

    def check(self) -> None:
        check_accounts(self.pool, self.index, self.tables)


@pytest.fixture
def books() -> Books:
    return Books(8)


def tokens_of(num_tokens: int, seed: int = 0) -> list[int]:
    return [1000 * seed + place for place in range(num_tokens)]


@pytest.mark.parametrize("num_tokens", [1, 2, 15, 16, 17, 31, 32, 33, 48])
def test_of_a_finished_sequence_everything_but_the_last_token_is_found(books: Books, num_tokens: int) -> None:
    books.finished(tokens_of(num_tokens))
    assert books.table().match(tokens_of(num_tokens)).num_tokens == num_tokens - 1
    assert books.table().match([*tokens_of(num_tokens), 7]).num_tokens == num_tokens


def test_a_block_that_begins_right_is_copied_and_held_until_it_was(books: Books) -> None:
    block_ids = books.finished(tokens_of(40))
    table = books.table()
    wanted = [*tokens_of(35), 7, 7]
    assert table.adopt(table.match(wanted)) == 35
    assert table.copy == BlockCopy(block_ids[2], table.block_ids[2])
    assert table.block_ids[:2] == block_ids[:2] and table.block_ids[2] != block_ids[2]
    assert books.pool.num_held == 4
    books.check()
    table.copied()
    assert table.copy is None
    assert books.pool.num_held == 3
    assert books.index.worth(block_ids[2]) == Worth.TAIL, "the original is still there for others"
    books.check()


def test_a_sequence_that_ends_before_its_copy_was_made_gives_back_source_and_target(books: Books) -> None:
    source = books.finished(tokens_of(40))[2]
    table = books.table()
    wanted = [*tokens_of(35), 7, 7]
    table.adopt(table.match(wanted))
    target = table.block_ids[2]
    table.publish_tail(wanted, 35)
    table.release()
    assert books.pool.num_held == 0
    assert source in books.index and target not in books.index, "there was nothing in the target yet"
    books.check()


def test_where_source_and_copy_do_not_fit_the_block_is_computed_instead() -> None:
    books = Books(3)
    books.finished(tokens_of(40))
    table = books.table()
    match = table.match([*tokens_of(35), 7, 7])
    assert match.partial is None
    assert table.adopt(match) == 32
    assert table.grow(37), "two blocks taken over, one of its own"
    books.check()


def test_adopting_more_than_fits_leaves_out_the_copy() -> None:
    books = Books(4)
    books.finished(tokens_of(40))
    table = books.table()
    match = table.match([*tokens_of(35), 7, 7])
    assert match.partial is not None
    books.computed(tokens_of(16, seed=9))
    assert table.adopt(match) == 32
    assert table.copy is None
    books.check()


def test_a_copy_is_not_made_of_another_tenants_block(books: Books) -> None:
    books.finished(tokens_of(40))
    other = BlockTable(books.pool, books.index, "you")
    assert other.match(tokens_of(40)).num_tokens == 0


def test_the_tail_of_a_running_sequence_is_found_and_gives_way_to_the_full_block(books: Books) -> None:
    tokens = tokens_of(40)
    running = books.table()
    assert running.grow(40)
    running.publish(tokens, 20)
    running.publish_tail(tokens, 20)
    assert books.table().match(tokens).num_tokens == 20
    running.publish_tail(tokens, 25)
    assert books.table().match(tokens).num_tokens == 25
    books.check()
    running.publish(tokens, 36)
    assert books.table().match(tokens).num_tokens == 32
    assert len(books.index) == 2
    books.check()


def test_a_tail_shown_twice_is_one_tail(books: Books) -> None:
    running = books.table()
    assert running.grow(5)
    running.publish_tail(tokens_of(5), 5)
    running.publish_tail(tokens_of(5), 5)
    assert len(books.index) == 1
    books.check()


def test_a_released_prompt_is_evicted_tail_first_then_from_its_end() -> None:
    books = Books(4)
    block_ids = books.finished(tokens_of(52))
    other = books.table()
    assert other.grow(1)
    assert other.block_ids == block_ids[3:]
    assert other.grow(2 * BLOCK)
    assert other.block_ids == [block_ids[3], block_ids[2]]
    assert books.table().match([*tokens_of(48), 5]).num_tokens == 32
    books.check()


def test_a_tail_goes_before_a_full_block_that_was_idle_for_longer() -> None:
    books = Books(3)
    old = books.finished(tokens_of(16, seed=1))
    books.finished(tokens_of(5, seed=2))
    other = books.table()
    assert other.grow(2 * BLOCK)
    assert old[0] in books.index
    books.check()


def test_a_prompt_does_not_evict_the_blocks_it_hits() -> None:
    books = Books(2)
    books.finished(tokens_of(BLOCK))
    longer = books.table()
    wanted = [*tokens_of(BLOCK), *tokens_of(BLOCK, seed=1)]
    assert longer.adopt(longer.match(wanted)) == BLOCK
    assert longer.grow(2 * BLOCK)
    assert len(set(longer.block_ids)) == 2
    books.check()


def test_a_table_that_cannot_grow_changes_nothing(books: Books) -> None:
    books.finished(tokens_of(40))
    table = books.table()
    assert not table.grow(9 * BLOCK)
    assert table.block_ids == []
    assert books.pool.num_cached == 3
    books.check()


@pytest.mark.parametrize("num_computed", [15, 16, 31, 32])
def test_only_computed_full_blocks_are_published(books: Books, num_computed: int) -> None:
    table = books.table()
    assert table.grow(32)
    table.publish(tokens_of(32), num_computed)
    assert len(books.index) == num_computed // BLOCK


def test_tokens_behind_the_computed_ones_may_still_change(books: Books) -> None:
    table = books.table()
    assert table.grow(64)
    table.publish([*tokens_of(16), *tokens_of(16, seed=1)], 16)
    table.publish(tokens_of(32), 32)
    table.release()
    assert books.table().match([*tokens_of(32), 7]).num_tokens == 32
