"""Which KV blocks are free, and how many sequences hold each of the others."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from enum import Enum

from halfline.errors import InvariantBroken


class Worth(Enum):
    """What is lost when an idle block is taken: the lower, the sooner it is."""

    NOTHING = "nothing"
    TAIL = "tail"
    """A block that is not full: fewer tokens, and nothing behind it."""
    BLOCK = "block"


class BlockPool:
    """Hands out block ids and takes them back; knows neither tokens nor tensors.

    Every block is in exactly one of three places:

        held     one or more sequences hold it
        cached   nobody holds it, but what it contains may be wanted again: taken last, tails before full blocks,
                 of each the longest idle first
        blank    nobody holds it and nobody wants what it contains: taken first

    Each holder gives back exactly what it took or shared, once (A10).
    """

    def __init__(self, num_blocks: int) -> None:
        self._num_holders = [0] * num_blocks
        # A stack: the lowest ids first, and recently used ones again, so that memory is touched no earlier than needed.
        self._blank = list(range(num_blocks - 1, -1, -1))
        self._tails: OrderedDict[int, None] = OrderedDict()  # longest idle first, as the next
        self._blocks: OrderedDict[int, None] = OrderedDict()
        self._evicted: Counter[Worth] = Counter()

    @property
    def num_blocks(self) -> int:
        return len(self._num_holders)

    @property
    def num_free(self) -> int:
        """Blocks that `take` could hand out now: the blank and the cached ones."""
        return len(self._blank) + self.num_cached

    @property
    def num_cached(self) -> int:
        return len(self._tails) + len(self._blocks)

    @property
    def num_held(self) -> int:
        return self.num_blocks - self.num_free

    def num_evicted(self, worth: Worth) -> int:
        """Cached blocks of that worth that `take` has handed out since the start."""
        return self._evicted[worth]

    def num_holders(self, block_id: int) -> int:
        return self._num_holders[block_id]

    def num_idle(self, block_ids: Sequence[int]) -> int:
        """How many of the blocks nobody holds."""
        return [self._num_holders[block_id] for block_id in block_ids].count(0)

    def idle_worth(self, block_id: int) -> Worth:
        """What the block, which nobody holds, was worth when it was given back."""
        if block_id in self._blocks:
            return Worth.BLOCK
        return Worth.TAIL if block_id in self._tails else Worth.NOTHING

    def take(self, count: int) -> list[int] | None:
        """Take `count` blocks, or none at all: None means the caller has to wait.

        Whatever they contained is lost; who remembers contents by block id must forget these.
        """
        if count > self.num_free:
            return None
        taken = [self._take_one() for _ in range(count)]
        for block_id in taken:
            self._num_holders[block_id] = 1
        return taken

    def share(self, block_ids: Sequence[int]) -> None:
        """Hold blocks whose contents are known, together with whoever holds them already."""
        num_holders, blocks, tails = self._num_holders, self._blocks, self._tails
        for block_id in block_ids:  # half a thousand for a long prompt: on the way of every keystroke
            if not num_holders[block_id]:
                try:
                    del blocks[block_id]
                except KeyError:
                    if block_id not in tails:
                        raise InvariantBroken(
                            f"block {block_id} is blank, there is nothing to share"
                        ) from None
                    del tails[block_id]
            num_holders[block_id] += 1

    def give_back(self, block_ids: Sequence[int], worth: Callable[[int], Worth]) -> None:
        """Let go of one hold on each block; the earlier in `block_ids`, the sooner it is taken again."""
        num_holders = self._num_holders
        for block_id in block_ids:
            if not num_holders[block_id]:
                raise InvariantBroken(f"block {block_id} was given back more often than it was held")
            num_holders[block_id] -= 1
            if not num_holders[block_id]:
                self._lay_aside(block_id, worth(block_id))

    def give_back_cold(self, block_ids: Sequence[int], worth: Callable[[int], Worth]) -> None:
        """As `give_back`, and whatever nobody else holds is taken before all others of its worth."""
        self.give_back(block_ids, worth)
        for block_id in reversed(block_ids):
            for idle in (self._tails, self._blocks):
                if block_id in idle:
                    idle.move_to_end(block_id, last=False)

    def check(self) -> None:
        """Raise InvariantBroken unless every block is held, cached or blank, and only one of them. Walks."""
        held = [block_id for block_id, holders in enumerate(self._num_holders) if holders > 0]
        cached = [*self._tails, *self._blocks]
        if sorted([*held, *cached, *self._blank]) != list(range(self.num_blocks)):
            raise InvariantBroken(f"held {held}, cached {cached}, blank {self._blank} overlap or leak")
        if min(self._num_holders, default=0) < 0:
            raise InvariantBroken(f"negative holders: {self._num_holders}")

    def _take_one(self) -> int:
        if self._blank:
            return self._blank.pop()
        worth, idle = (Worth.TAIL, self._tails) if self._tails else (Worth.BLOCK, self._blocks)
        self._evicted[worth] += 1
        return idle.popitem(last=False)[0]

    def _lay_aside(self, block_id: int, worth: Worth) -> None:
        if worth is Worth.BLOCK:
            self._blocks[block_id] = None
        elif worth is Worth.TAIL:
            self._tails[block_id] = None
        else:
            self._blank.append(block_id)
