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


OVERLAP = "overlap or leak"
MISCOUNTED = "is held . times, the pool counts ."
HALF_KNOWN = "is published in one book and not in the other"
WRONG_COPY = "copies what is not known, or onto what is"
WRONG_WORTH = "in one book only"
WRONG_LIST = "nodes list blocks"
MISPLACED = "a node is listed where it does not belong"

# Beside each what has to be said: that another check notices it too is no proof of this one.
FAULTS: dict[Callable[[Books], None], str] = {
    leak_a_block: OVERLAP,
    free_a_block_twice: OVERLAP,
    free_a_held_block: OVERLAP,
    keep_a_held_block_as_cached: OVERLAP,
    lose_a_holder: MISCOUNTED,
    count_below_zero: "negative holders",
    hold_a_block_that_was_not_taken: MISCOUNTED,
    hold_a_block_twice: "a table holds a block twice",
    lose_a_copy: MISCOUNTED,
    copy_from_a_block_nobody_knows: WRONG_COPY,
    copy_onto_a_known_block: WRONG_COPY,
    leave_the_source_of_a_copy_unheld: MISCOUNTED,
    publish_a_block_that_is_not_computed: HALF_KNOWN,
    forget_a_published_block: HALF_KNOWN,
    forget_that_a_tail_is_shown: HALF_KNOWN,
    forget_a_cached_block: WRONG_WORTH,
    keep_a_tail_as_if_it_were_full: WRONG_WORTH,
    know_a_blank_block: WRONG_WORTH,
    list_a_block_at_two_nodes: WRONG_LIST,
    list_a_block_twice: WRONG_LIST,
    unlist_a_block: WRONG_LIST,
    disorder_children: "children are out of order",
    adopt_a_strangers_child: MISPLACED,
    change_a_nodes_tokens: MISPLACED,
    leave_an_empty_node: "a node has neither blocks nor children",
    put_a_block_behind_a_tail: "a block that is not full has one behind it",
    give_a_root_contents: "a namespace's root has contents",
}


@pytest.mark.parametrize(("fault", "said"), FAULTS.items(), ids=[fault.__name__ for fault in FAULTS])
def test_check_notices(fault: Callable[[Books], None], said: str) -> None:
    books = Books()
    fault(books)
    with pytest.raises(InvariantBroken, match=said):
        books.check()
