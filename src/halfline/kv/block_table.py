"""The KV blocks of one sequence, in order."""

from collections.abc import Sequence

from halfline.errors import InvariantBroken
from halfline.kv.block_pool import BlockPool
from halfline.kv.prefix_index import Match, PrefixIndex, token_bytes
from halfline.model.executor import BLOCK_TOKENS


class BlockTable:
    """Block ids that only ever grow at their end, until all are released at once.

        block_ids   [ b0  b1  b2  b3  b4 ]
                      └ published ┘           full, computed, findable by others; never written again
                                  └ own ┘     written by this sequence alone

    The sequence's owner passes its tokens in; the table remembers only where they lie.
    """

    def __init__(self, pool: BlockPool, index: PrefixIndex, namespace: str) -> None:
        self._pool = pool
        self._index = index
        self._root = index.root(namespace)
        self._tail = self._root  # the node of the last published block
        self.block_ids: list[int] = []
        self.num_published = 0

    @property
    def num_places(self) -> int:
        """Tokens the blocks have room for."""
        return len(self.block_ids) * BLOCK_TOKENS

    def match(self, token_ids: Sequence[int]) -> Match:
        """What of the tokens' beginning is known already. Never the last token: something must be run for logits."""
        return self._index.match(self._root, token_ids, _num_adoptable_blocks(token_ids))

    def cost(self, match: Match, num_tokens: int) -> int:
        """Free blocks used up by adopting the match and then growing to `num_tokens`."""
        revived = sum(self._pool.is_cached(block_id) for block_id in match.block_ids)
        return revived + max(0, _num_blocks(num_tokens) - len(match.nodes))

    def adopt(self, match: Match) -> int:
        """Hold the blocks that contain the tokens' beginning; how many tokens that is. Only for an empty table."""
        if self.block_ids:
            raise InvariantBroken("a table adopts before it grows")
        self._pool.share(match.block_ids)
        self.block_ids = match.block_ids
        self.num_published = len(match.nodes)
        if match.nodes:
            self._tail = match.nodes[-1]
        return self.num_places

    def num_missing(self, num_tokens: int) -> int:
        """Blocks to be taken before `num_tokens` tokens have room."""
        return max(0, _num_blocks(num_tokens) - len(self.block_ids))

    def grow(self, num_tokens: int) -> bool:
        """Make room for `num_tokens` tokens in all. False means too few blocks are free; nothing has changed."""
        taken = self._pool.take(self.num_missing(num_tokens))
        if taken is None:
            return False
        self._index.forget(taken)
        self.block_ids += taken
        return True

    def publish(self, token_ids: Sequence[int], num_computed: int) -> None:
        """Let others find the blocks that have become full; `num_computed` tokens have their KV written."""
        while (self.num_published + 1) * BLOCK_TOKENS <= num_computed:
            tokens = self._next_block(token_ids)
            self._tail = self._index.publish(self._tail, tokens, self.block_ids[self.num_published])
            self.num_published += 1

    def next_digest(self, token_ids: Sequence[int]) -> bytes | None:
        """The name under which the first unpublished block will be found; None when the tokens do not fill it."""
        if len(token_ids) < (self.num_published + 1) * BLOCK_TOKENS:
            return None
        return self._index.digest(self._tail, self._next_block(token_ids))

    def release(self) -> None:
        """Give everything back. The tail goes first: a shared beginning is worth keeping longest."""
        self._pool.give_back(self.block_ids[::-1], worth_keeping=self._index)
        self.block_ids = []
        self.num_published = 0
        self._tail = self._root

    def _next_block(self, token_ids: Sequence[int]) -> bytes:
        start = self.num_published * BLOCK_TOKENS
        return token_bytes(token_ids[start : start + BLOCK_TOKENS])


def _num_blocks(num_tokens: int) -> int:
    return -(-num_tokens // BLOCK_TOKENS)


def _num_adoptable_blocks(token_ids: Sequence[int]) -> int:
    """Full blocks that do not cover the last token."""
    return max(0, len(token_ids) - 1) // BLOCK_TOKENS


def check_accounts(pool: BlockPool, index: PrefixIndex, tables: Sequence[BlockTable]) -> None:
    """Raise InvariantBroken unless the tables hold exactly what the pool says is held. Walks everything."""
    pool.check()
    index.check()
    holders = [0] * pool.num_blocks
    for table in tables:
        if len(set(table.block_ids)) != len(table.block_ids):
            raise InvariantBroken(f"a table holds a block twice: {table.block_ids}")
        for position, block_id in enumerate(table.block_ids):
            holders[block_id] += 1
            if (block_id in index) != (position < table.num_published):
                raise InvariantBroken(f"block {block_id} is published in one book and not in the other")
    for block_id, count in enumerate(holders):
        if pool.num_holders(block_id) != count:
            raise InvariantBroken(
                f"block {block_id} is in {count} tables, the pool counts {pool.num_holders(block_id)}"
            )
        if count == 0 and (block_id in index) != pool.is_cached(block_id):
            raise InvariantBroken(f"idle block {block_id} is cached in one book and not in the other")
