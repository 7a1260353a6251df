"""Which KV blocks are free, and how many sequences hold each of the others."""

from collections import OrderedDict
from collections.abc import Container, Sequence

from halfline.errors import InvariantBroken


class BlockPool:
    """Hands out block ids and takes them back; knows neither tokens nor tensors.

    Every block is in exactly one of three places:

        held     one or more sequences hold it
        cached   nobody holds it, but what it contains may be wanted again: taken last, longest idle first
        blank    nobody holds it and nobody wants what it contains: taken first

    Each holder gives back exactly what it took or shared, once (A10).
    """

    def __init__(self, num_blocks: int) -> None:
        self._num_holders = [0] * num_blocks
        self._blank = list(
            range(num_blocks - 1, -1, -1)
        )  # a stack: lowest ids first, recently used ones again
        self._cached: OrderedDict[int, None] = OrderedDict()  # longest idle first

    @property
    def num_blocks(self) -> int:
        return len(self._num_holders)

    @property
    def num_free(self) -> int:
        """Blocks that `take` could hand out now: the blank and the cached ones."""
        return len(self._blank) + len(self._cached)

    @property
    def num_cached(self) -> int:
        return len(self._cached)

    @property
    def num_held(self) -> int:
        return self.num_blocks - self.num_free

    def num_holders(self, block_id: int) -> int:
        return self._num_holders[block_id]

    def is_cached(self, block_id: int) -> bool:
        return block_id in self._cached

    def take(self, count: int) -> list[int] | None:
        """Take `count` blocks, or none at all: None means the caller has to wait.

        Whatever they contained is lost; who remembers contents by block id must forget these.
        """
        if count > self.num_free:
            return None
        taken = [
            self._blank.pop() if self._blank else self._cached.popitem(last=False)[0] for _ in range(count)
        ]
        for block_id in taken:
            self._num_holders[block_id] = 1
        return taken

    def share(self, block_ids: Sequence[int]) -> None:
        """Hold blocks whose contents are known, together with whoever holds them already."""
        for block_id in block_ids:
            if self._num_holders[block_id] == 0:
                if block_id not in self._cached:
                    raise InvariantBroken(f"block {block_id} is blank, there is nothing to share")
                del self._cached[block_id]
            self._num_holders[block_id] += 1

    def give_back(self, block_ids: Sequence[int], worth_keeping: Container[int]) -> None:
        """Let go of one hold on each block; the earlier in `block_ids`, the sooner it is taken again.

        A block nobody holds any more stays cached if it is in `worth_keeping`.
        """
        for block_id in block_ids:
            if self._num_holders[block_id] == 0:
                raise InvariantBroken(f"block {block_id} was given back more often than it was held")
            self._num_holders[block_id] -= 1
            if self._num_holders[block_id] == 0:
                if block_id in worth_keeping:
                    self._cached[block_id] = None
                else:
                    self._blank.append(block_id)

    def check(self) -> None:
        """Raise InvariantBroken unless every block is held, cached or blank, and only one of them. Walks."""
        held = [block_id for block_id, holders in enumerate(self._num_holders) if holders > 0]
        places = sorted([*held, *self._cached, *self._blank])
        if places != list(range(self.num_blocks)):
            raise InvariantBroken(
                f"held {held}, cached {list(self._cached)}, blank {self._blank} overlap or leak"
            )
        if min(self._num_holders, default=0) < 0:
            raise InvariantBroken(f"negative holders: {self._num_holders}")
