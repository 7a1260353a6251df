"""The KV blocks of one sequence, in order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from halfline.errors import InvariantBroken
from halfline.kv.block_pool import BlockPool
from halfline.kv.pins import Pins
from halfline.kv.prefix_index import TOKEN_BYTES, Match, Node, Partial, PrefixIndex, token_blocks
from halfline.model.kv_format import BLOCK_TOKENS, F16, KvFormat


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """Contents that must be in `target` before its sequence runs again."""

    source: int
    target: int


class BlockTable:
    """Block ids that only ever grow at their end, until all are released at once.

        block_ids   [ b0  b1  b2  b3  b4 ]
                      └ published ┘           full, computed, findable by others; never written again
                                  └ own ┘     written by this sequence alone; the first of them may be findable as a
                                              tail: up to the tokens it was published with

    A prompt that shares only some first tokens of a known block gets a copy of it (`copy`): it holds the source too
    until the copy was made.

    A format that does not share open blocks (model/kv_format.py) knows neither copies nor tails, and takes one block
    more than its places fill.

    The sequence's owner passes its tokens in; the table remembers only where they lie, and those of full blocks as
    bytes, so that nothing is encoded twice. Tokens that were passed in once must stay the same.
    """

    def __init__(
        self, pool: BlockPool, index: PrefixIndex, namespace: str, kv_format: KvFormat = F16
    ) -> None:
        self.kv_format = kv_format
        self._pool = pool
        self._index = index
        self.root = index.root(namespace)
        self._tail = self.root  # the node of the last published block
        self._num_tail_tokens = 0  # with which the first own block was published; 0: it was not
        self._encoded: list[bytes] = []  # the tokens of the first full blocks
        self.block_ids: list[int] = []
        self.num_published = 0
        self.copy: BlockCopy | None = None
        """What the executor has yet to copy; None: nothing."""

    @property
    def num_places(self) -> int:
        """Tokens the blocks have room for."""
        return self.kv_format.num_tokens(len(self.block_ids))

    @property
    def held_ids(self) -> list[int]:
        """Every block this table holds, one entry per hold."""
        return self.block_ids if self.copy is None else [*self.block_ids, self.copy.source]

    @property
    def num_findable(self) -> int:
        """How many of the first blocks the index knows."""
        return self.num_published + (self._num_tail_tokens > 0)

    def match(self, token_ids: Sequence[int]) -> Match:
        """What of the tokens' beginning is known already. Never the last token: something must be run for logits."""
        num_whole = (len(token_ids) - 1) // BLOCK_TOKENS
        self._encode(token_ids)
        rest = token_blocks(token_ids[num_whole * BLOCK_TOKENS :])[0]
        match = self._index.match(self.root, self._encoded[:num_whole], rest)
        if match.partial is not None and not (
            self.kv_format.shares_open_blocks and self.cost(match, len(token_ids)) <= self._pool.num_free
        ):
            # Source and copy are held at once: one block more than the sequence needs, which may be one too many.
            return replace(match, partial=None)
        return match

    def cost(self, match: Match, num_tokens: int) -> int:
        """Free blocks used up by adopting the match and then growing to `num_tokens`."""
        held = match.block_ids if match.partial is None else (*match.block_ids, match.partial.block_id)
        return self._pool.num_idle(held) + max(0, self.kv_format.num_blocks(num_tokens) - len(match.nodes))

    def adopt(self, match: Match) -> int:
        """Hold the blocks that contain the tokens' beginning; how many tokens that is. Only for an empty table.

        A block that only begins right is copied: `copy` has to be carried out before the next token is computed.
        Without a free block for it that beginning is left out.
        """
        if self.block_ids:
            raise InvariantBroken("a table adopts before it grows")
        self._pool.share(match.block_ids)
        self.block_ids = list(match.block_ids)
        self.num_published = len(match.nodes)
        if match.nodes:
            self._tail = match.nodes[-1]
        if match.partial is not None and self._start_copy(match.partial):
            return match.num_tokens
        return len(match.nodes) * BLOCK_TOKENS

    def copied(self) -> None:
        """The copy was made: its source is no longer needed. Nothing to copy is fine."""
        if self.copy is not None:
            self._pool.give_back([self.copy.source], self._index.worth)
            self.copy = None

    def num_missing(self, num_tokens: int) -> int:
        """Blocks to be taken before `num_tokens` tokens have room."""
        return max(0, self.kv_format.num_blocks(num_tokens) - len(self.block_ids))

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
        if num_computed < (self.num_published + 1) * BLOCK_TOKENS:
            return
        self._encode(token_ids[: num_computed - num_computed % BLOCK_TOKENS])
        self._withdraw_tail()
        while (self.num_published + 1) * BLOCK_TOKENS <= num_computed:
            block_id = self.block_ids[self.num_published]
            self._tail = self._index.publish(self._tail, self._encoded[self.num_published], block_id)
            self.num_published += 1

    def publish_tail(self, token_ids: Sequence[int], num_computed: int) -> None:
        """Let others find the block that is not full yet as well, as far as it is computed now."""
        if self.copy is not None or not self.kv_format.shares_open_blocks:
            return  # what counts as computed is not there yet
        start = self.num_published * BLOCK_TOKENS
        if start + self._num_tail_tokens < num_computed < start + BLOCK_TOKENS:
            self._withdraw_tail()
            tokens = token_blocks(token_ids[start:num_computed])[0]
            self._index.publish(self._tail, tokens, self.block_ids[self.num_published])
            self._num_tail_tokens = len(tokens) // TOKEN_BYTES

    def pin(self, pins: Pins, num_tokens: int) -> None:
        """Have the blocks that hold the first `num_tokens` kept, as far as these fill them. Before they are published
        there is nothing to keep.
        """
        num_blocks = num_tokens // BLOCK_TOKENS
        if 0 < num_blocks <= self.num_published:
            last = self._index.node_of(self.block_ids[num_blocks - 1])
            assert last is not None  # published, and held by this table
            pins.pin(last, self.block_ids[:num_blocks])

    def next_block(self, token_ids: Sequence[int]) -> tuple[Node, bytes]:
        """What the next block to be published will be: its past and the tokens it has so far, as in `Match.missed`."""
        start = self.num_published * BLOCK_TOKENS
        return self._tail, token_blocks(token_ids[start : start + BLOCK_TOKENS])[0]

    def release(self) -> None:
        """Give everything back. The tail goes first: a shared beginning is worth keeping longest."""
        self.copied()
        self._pool.give_back(self.block_ids[::-1], self._index.worth)
        self._forget()

    def release_cold(self, num_warm: int) -> None:
        """As `release`, for contents that, behind the first `num_warm` blocks, are worth less than anything else's."""
        self.copied()
        self._pool.give_back_cold(self.block_ids[num_warm:][::-1], self._index.worth)
        self._pool.give_back(self.block_ids[:num_warm][::-1], self._index.worth)
        self._forget()

    def _forget(self) -> None:
        self.block_ids = []
        self.num_published = 0
        self._num_tail_tokens = 0
        self._tail = self.root

    def _start_copy(self, partial: Partial) -> bool:
        """Hold source and target. False when no block is free for the target; nothing has changed."""
        source = partial.block_id
        self._pool.share([source])
        taken = self._pool.take(1)
        if taken is None:
            self._pool.give_back([source], self._index.worth)
            return False
        self._index.forget(taken)
        self.block_ids += taken
        self.copy = BlockCopy(source, taken[0])
        return True

    def _withdraw_tail(self) -> None:
        if self._num_tail_tokens:
            self._index.forget([self.block_ids[self.num_published]])
            self._num_tail_tokens = 0

    def _encode(self, token_ids: Sequence[int]) -> None:
        """Remember the bytes of all full blocks of `token_ids`."""
        num_full = len(token_ids) // BLOCK_TOKENS
        start = len(self._encoded)
        if num_full > start:
            whole = start == 0 and len(token_ids) % BLOCK_TOKENS == 0
            new = token_ids if whole else token_ids[start * BLOCK_TOKENS : num_full * BLOCK_TOKENS]
            self._encoded += token_blocks(new)


def check_accounts(
    pool: BlockPool, index: PrefixIndex, tables: Sequence[BlockTable], pins: Pins | None = None
) -> None:
    """Raise InvariantBroken unless tables and pins hold exactly what the pool says is held. Walks everything."""
    pool.check()
    index.check()
    holders = [0] * pool.num_blocks
    if pins is not None:
        pins.check()
        for block_id in pins.held_ids():
            holders[block_id] += 1
    for table in tables:
        if len(set(table.held_ids)) != len(table.held_ids):
            raise InvariantBroken(f"a table holds a block twice: {table.held_ids}")
        for block_id in table.held_ids:
            holders[block_id] += 1
        for position, block_id in enumerate(table.block_ids):
            if (block_id in index) != (position < table.num_findable):
                raise InvariantBroken(f"block {block_id} is published in one book and not in the other")
        if table.copy is not None and (table.copy.source not in index or table.copy.target in index):
            raise InvariantBroken(f"{table.copy} copies what is not known, or onto what is")
    for block_id, count in enumerate(holders):
        if pool.num_holders(block_id) != count:
            raise InvariantBroken(
                f"block {block_id} is held {count} times, the pool counts {pool.num_holders(block_id)}"
            )
        if count == 0 and index.worth(block_id) != pool.idle_worth(block_id):
            raise InvariantBroken(f"idle block {block_id} is worth {index.worth(block_id)} in one book only")
