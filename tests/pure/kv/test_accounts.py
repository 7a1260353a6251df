"""Pool, index and tables together, against a model that remembers everything and decides nothing."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from halfline.kv.block_pool import BlockPool
from halfline.kv.block_table import BlockTable, check_accounts
from halfline.kv.prefix_index import PrefixIndex

BLOCK = 16
NUM_BLOCKS = 12


class Accounts(RuleBasedStateMachine):
    """Sequences over an alphabet of two tokens per block, so that prefixes meet often.

    The naive side: `contents[block]` is (namespace, all tokens up to the block's end), written when a table
    publishes; a block adopted must contain just what its new holder has there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(NUM_BLOCKS)
        self.index = PrefixIndex(key=b"key", digest_bytes=1)
        self.tables: list[tuple[BlockTable, str, list[int]]] = []
        self.contents: dict[int, tuple[str, tuple[int, ...]]] = {}

    @rule(
        namespace=st.sampled_from("ab"),
        blocks=st.lists(st.integers(0, 1), min_size=1, max_size=4),
        extra=st.integers(0, BLOCK - 1),
    )
    def start(self, namespace: str, blocks: list[int], extra: int) -> None:
        tokens = [token for token in blocks for _ in range(BLOCK)] + [9] * extra
        table = BlockTable(self.pool, self.index, namespace)
        match = table.match(tokens)
        cost = table.cost(match, len(tokens))
        free = self.pool.num_free
        num_adopted = table.adopt(match)
        assert num_adopted == len(match.nodes) * BLOCK < len(tokens)
        for position, block_id in enumerate(table.block_ids):
            assert self.contents[block_id] == (namespace, tuple(tokens[: (position + 1) * BLOCK]))
        if table.grow(len(tokens)):
            assert free - self.pool.num_free == cost, "the cost was announced"
            self.tables.append((table, namespace, tokens))
        else:
            assert cost > free
            table.release()

    @precondition(lambda self: self.tables)
    @rule(which=st.integers(0, 99), num_tokens=st.integers(1, 2 * BLOCK), token=st.integers(0, 1))
    def extend(self, which: int, num_tokens: int, token: int) -> None:
        table, _, tokens = self.tables[which % len(self.tables)]
        before = list(table.block_ids), Counter(table.block_ids), self.pool.num_free
        if table.grow(len(tokens) + num_tokens):
            tokens += [token] * num_tokens
        else:
            assert (table.block_ids, Counter(table.block_ids), self.pool.num_free) == before

    @precondition(lambda self: self.tables)
    @rule(which=st.integers(0, 99), share=st.floats(0, 1))
    def compute(self, which: int, share: float) -> None:
        table, namespace, tokens = self.tables[which % len(self.tables)]
        first = table.num_published
        table.publish(tokens, max(first * BLOCK, int(share * len(tokens))))
        for position in range(first, table.num_published):
            self.contents[table.block_ids[position]] = (namespace, tuple(tokens[: (position + 1) * BLOCK]))

    @precondition(lambda self: self.tables)
    @rule(which=st.integers(0, 99))
    def finish(self, which: int) -> None:
        table, _, _ = self.tables.pop(which % len(self.tables))
        table.release()
        table.release()  # an empty table holds nothing, so this changes nothing

    @invariant()
    def books_agree(self) -> None:
        check_accounts(self.pool, self.index, [table for table, _, _ in self.tables])

    def teardown(self) -> None:
        for table, _, _ in self.tables:
            table.release()
        assert self.pool.num_free == NUM_BLOCKS, "every holder gave back exactly what it took"


TestAccounts = Accounts.TestCase
TestAccounts.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


def test_a_hit_never_covers_the_last_token() -> None:
    pool, index = BlockPool(4), PrefixIndex(key=b"key")
    tokens = list(range(2 * BLOCK))
    table = BlockTable(pool, index, "me")
    assert table.grow(len(tokens))
    table.publish(tokens, len(tokens))
    assert len(BlockTable(pool, index, "me").match(tokens).nodes) == 1
    assert len(BlockTable(pool, index, "me").match([*tokens, 5]).nodes) == 2


def test_a_released_prompt_is_evicted_from_its_tail() -> None:
    pool, index = BlockPool(3), PrefixIndex(key=b"key")
    tokens = list(range(3 * BLOCK))
    table = BlockTable(pool, index, "me")
    assert table.grow(len(tokens))
    table.publish(tokens, len(tokens))
    table.release()
    other = BlockTable(pool, index, "me")
    assert other.grow(1)
    assert len(BlockTable(pool, index, "me").match([*tokens, 5]).nodes) == 2


def test_a_prompt_does_not_evict_the_blocks_it_hits() -> None:
    pool, index = BlockPool(2), PrefixIndex(key=b"key")
    tokens = list(range(BLOCK))
    table = BlockTable(pool, index, "me")
    assert table.grow(BLOCK)
    table.publish(tokens, BLOCK)
    table.release()
    longer = BlockTable(pool, index, "me")
    longer.adopt(longer.match([*tokens, *tokens]))
    assert longer.grow(2 * BLOCK)
    assert len(set(longer.block_ids)) == 2
    check_accounts(pool, index, [longer])


@pytest.mark.parametrize("num_computed", [15, 16, 31, 32])
def test_only_computed_full_blocks_are_published(num_computed: int) -> None:
    pool, index = BlockPool(2), PrefixIndex(key=b"key")
    table = BlockTable(pool, index, "me")
    assert table.grow(32)
    table.publish(list(range(32)), num_computed)
    assert len(index) == num_computed // BLOCK
