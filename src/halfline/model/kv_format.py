"""How KV is kept in blocks, as far as those who only count blocks need to know.

In `int8` format a block is filled in fp16 and quantised once it is full. For each head K has one scale per dimension
and V one per place. A row reads the block of its own place in fp16 and every earlier one in int8, however its sequence
was cut into steps: so chunked equals whole and reused equals computed, bit by bit, as in `f16`. model/int8_kv.py is
the specification.

A block that is not full yet takes the room of two: its fp16 V lie in the table's next block, which holds nothing yet.

    table   [ 0 ] [ 1 ] [ 2 ] [ 3 ]      40 tokens: two full blocks, and one that is open
             int8  int8  └ fp16 ┘

It follows that an open block cannot be shared, and that a block must not be filled with tokens that may turn out wrong.
"""

from dataclasses import dataclass
from typing import Literal

BLOCK_TOKENS = 16

KvFormatName = Literal["f16", "int8"]


@dataclass(frozen=True, slots=True)
class KvFormat:
    """`num_open_blocks`: how many a block takes until it is full. `value_bytes`, `scale_bytes`: of one number, and of
    one scale."""

    name: KvFormatName
    num_open_blocks: int
    value_bytes: int
    scale_bytes: int

    @property
    def shares_open_blocks(self) -> bool:
        """Whether a block that is not full can be found and copied like a full one."""
        return self.num_open_blocks == 1

    def num_blocks(self, num_tokens: int) -> int:
        """Blocks in which a sequence has room for so many tokens, at each length on the way there."""
        return -(-num_tokens // BLOCK_TOKENS) + self.num_open_blocks - 1 if num_tokens else 0

    def num_tokens(self, num_blocks: int) -> int:
        """The most tokens for which `num_blocks` are enough."""
        return max(0, num_blocks - self.num_open_blocks + 1) * BLOCK_TOKENS

    def num_blocks_at(self, num_tokens: int) -> int:
        """Blocks that so many tokens lie in now; with a last one that is open all it takes until it is full."""
        num_full, num_open = divmod(num_tokens, BLOCK_TOKENS)
        return num_full + (self.num_open_blocks if num_open else 0)

    def num_revocable(self, first_place: int) -> int | None:
        """How many tokens from that place on may be written though they may turn out wrong; None for any number."""
        return None if self.shares_open_blocks else BLOCK_TOKENS - 1 - first_place % BLOCK_TOKENS

    def head_bytes(self, head_dim: int) -> int:
        """Of one block and KV head in one layer."""
        num_scales = head_dim + BLOCK_TOKENS  # of K and of V
        return 2 * BLOCK_TOKENS * head_dim * self.value_bytes + num_scales * self.scale_bytes


F16 = KvFormat("f16", num_open_blocks=1, value_bytes=2, scale_bytes=0)
INT8 = KvFormat("int8", num_open_blocks=2, value_bytes=1, scale_bytes=4)


def kv_format_named(name: KvFormatName) -> KvFormat:
    return INT8 if name == "int8" else F16
