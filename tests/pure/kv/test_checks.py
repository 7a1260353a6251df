"""Every invariant is broken once by hand, and its check notices."""

from collections.abc import Callable

import pytest

from halfline.errors import InvariantBroken
from halfline.kv.block_pool import BlockPool
from halfline.kv.block_table import BlockCopy, BlockTable, check_accounts
from halfline.kv.prefix_index import PrefixIndex, token_blocks

TOKENS = list(range(40))


class Books:
    """Ten blocks: a running sequence with a tail shown and a copy to make, an idle prompt with a tail, blank ones."""

    def __init__(self) -> None:
        self.pool, self.index = BlockPool(10), PrefixIndex()
        idle = BlockTable(self.pool, self.index, "me")
        assert idle.grow(40)
        idle.publish(TOKENS, 40)
        idle.publish_tail(TOKENS, 40)
        self.idle_ids = idle.block_ids
        idle.release()
        self.other = BlockTable(self.pool, self.index, "you")
        assert self.other.grow(20)
        self.other.publish(TOKENS, 20)
        self.other.publish_tail(TOKENS, 20)
        self.table = BlockTable(self.pool, self.index, "me")
        self.table.adopt(self.table.match([*TOKENS[:35], 7]))
        self.check()

    def check(self) -> None:
        check_accounts(self.pool, self.index, [self.table, self.other])


def leak_a_block(books: Books) -> None:
    books.pool._blank.pop()


def free_a_block_twice(books: Books) -> None:
    books.pool._blank.append(books.pool._blank[0])


def free_a_held_block(books: Books) -> None:
    books.pool._blank.append(books.table.block_ids[0])


def keep_a_held_block_as_cached(books: Books) -> None:
    books.pool._blocks[books.table.block_ids[0]] = None


def lose_a_holder(books: Books) -> None:
    books.pool._num_holders[books.table.block_ids[0]] = 2


def count_below_zero(books: Books) -> None:
    books.pool._num_holders[books.pool._blank[0]] = -1


def hold_a_block_that_was_not_taken(books: Books) -> None:
    books.other.block_ids.append(books.pool._blank[-1])


def hold_a_block_twice(books: Books) -> None:
    books.table.block_ids.append(books.table.block_ids[0])


def lose_a_copy(books: Books) -> None:
    books.table.copy = None


def copy_from_a_block_nobody_knows(books: Books) -> None:
    assert books.table.copy is not None
    books.index.forget([books.table.copy.source])


def copy_onto_a_known_block(books: Books) -> None:
    assert books.table.copy is not None
    books.index.publish(books.index.root("me"), token_blocks([5])[0], books.table.copy.target)
    books.table.num_published += 1


def leave_the_source_of_a_copy_unheld(books: Books) -> None:
    assert books.table.copy is not None
    books.table.copy = BlockCopy(books.other.block_ids[0], books.table.copy.target)


def publish_a_block_that_is_not_computed(books: Books) -> None:
    books.index.publish(books.index.root("me"), token_blocks(TOKENS[:16])[0], books.table.block_ids[-1])


def forget_a_published_block(books: Books) -> None:
    books.index.forget([books.other.block_ids[0]])


def forget_that_a_tail_is_shown(books: Books) -> None:
    books.other._num_tail_tokens = 0


def forget_a_cached_block(books: Books) -> None:
    books.table.release()
    books.index.forget([books.idle_ids[1]])


def keep_a_tail_as_if_it_were_full(books: Books) -> None:
    books.table.release()
    (block_id,) = books.pool._tails
    del books.pool._tails[block_id]
    books.pool._blocks[block_id] = None


def know_a_blank_block(books: Books) -> None:
    books.index.publish(books.index.root("me"), token_blocks([5])[0], books.pool._blank[-1])


def list_a_block_at_two_nodes(books: Books) -> None:
    books.index._by_block[books.idle_ids[1]].block_ids.append(books.idle_ids[0])


def list_a_block_twice(books: Books) -> None:
    books.index._by_block[books.idle_ids[0]].block_ids.append(books.idle_ids[0])


def unlist_a_block(books: Books) -> None:
    books.index._by_block[books.idle_ids[0]].block_ids.clear()


def disorder_children(books: Books) -> None:
    books.index.root("me").order.clear()


def adopt_a_strangers_child(books: Books) -> None:
    node = books.index._by_block[books.other.block_ids[0]]
    root = books.index.root("me")
    root.children[node.tokens] = node


def change_a_nodes_tokens(books: Books) -> None:
    books.index._by_block[books.idle_ids[0]].tokens = bytes(64)


def leave_an_empty_node(books: Books) -> None:
    node = books.index.publish(books.index.root("me"), token_blocks([5])[0], 9)
    del books.index._by_block[9]
    node.block_ids.clear()


def put_a_block_behind_a_tail(books: Books) -> None:
    tail = books.index._by_block[books.idle_ids[2]]
    books.index.publish(tail, token_blocks([5])[0], 9)


def give_a_root_contents(books: Books) -> None:
    books.index.root("me").block_ids.append(9)


FAULTS = [
    leak_a_block,
    free_a_block_twice,
    free_a_held_block,
    keep_a_held_block_as_cached,
    lose_a_holder,
    count_below_zero,
    hold_a_block_that_was_not_taken,
    hold_a_block_twice,
    lose_a_copy,
    copy_from_a_block_nobody_knows,
    copy_onto_a_known_block,
    leave_the_source_of_a_copy_unheld,
    publish_a_block_that_is_not_computed,
    forget_a_published_block,
    forget_that_a_tail_is_shown,
    forget_a_cached_block,
    keep_a_tail_as_if_it_were_full,
    know_a_blank_block,
    list_a_block_at_two_nodes,
    list_a_block_twice,
    unlist_a_block,
    disorder_children,
    adopt_a_strangers_child,
    change_a_nodes_tokens,
    leave_an_empty_node,
    put_a_block_behind_a_tail,
    give_a_root_contents,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_check_notices(fault: Callable[[Books], None]) -> None:
    books = Books()
    fault(books)
    with pytest.raises(InvariantBroken):
        books.check()
