"""Beginnings of prompts whose blocks stay whatever else comes: what many requests begin with.

A pin is a holder like a sequence, so its blocks are neither idle nor taken. Pins take at most what an arena has beyond
one sequence of full length: whoever could run without them can run beside them. Of too many the longest unused goes.
"""

from collections import OrderedDict
from collections.abc import Sequence

from halfline.errors import InvariantBroken
from halfline.kv.block_pool import BlockPool
from halfline.kv.prefix_index import Node, PrefixIndex


class Pins:
    """Owned by the engine's thread, as pool and index are. `max_blocks` 0: nothing is ever pinned."""

    def __init__(self, pool: BlockPool, index: PrefixIndex, max_blocks: int) -> None:
        self._pool = pool
        self._index = index
        self._max_blocks = max_blocks
        self._pinned: OrderedDict[Node, tuple[int, ...]] = (
            OrderedDict()
        )  # by the last block's node, longest unused first
        self.num_blocks = 0
        """Of all pins; a block that two of them begin with counts twice."""

    def pin(self, last: Node, block_ids: Sequence[int]) -> None:
        """Hold published blocks, all of a prompt's first ones up to the one known as `last`; as the latest used, if
        they are held already. More than there may be are passed over.
        """
        if last in self._pinned:
            self._pinned.move_to_end(last)
            return
        if not 0 < len(block_ids) <= self._max_blocks:
            return
        while self.num_blocks + len(block_ids) > self._max_blocks:
            self._release(next(iter(self._pinned)))
        self._pool.share(block_ids)
        self._pinned[last] = tuple(block_ids)
        self.num_blocks += len(block_ids)

    def release_all(self) -> None:
        """Nothing is pinned any more: the model goes."""
        while self._pinned:
            self._release(next(iter(self._pinned)))

    def held_ids(self) -> list[int]:
        """Every block that is held, one entry per hold."""
        return [block_id for block_ids in self._pinned.values() for block_id in block_ids]

    def check(self) -> None:
        """Raise InvariantBroken unless all that is pinned can be found, and is no more than may be."""
        if self.num_blocks != len(self.held_ids()) or self.num_blocks > self._max_blocks:
            raise InvariantBroken(f"{len(self.held_ids())} blocks are pinned, counted {self.num_blocks}")
        for last, block_ids in self._pinned.items():
            if block_ids[-1] not in last.block_ids or any(each not in self._index for each in block_ids):
                raise InvariantBroken(f"pinned blocks {block_ids} cannot be found")

    def _release(self, last: Node) -> None:
        block_ids = self._pinned.pop(last)
        self.num_blocks -= len(block_ids)
        self._pool.give_back(block_ids[::-1], self._index.worth)
