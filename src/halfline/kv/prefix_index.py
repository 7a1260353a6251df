"""Which blocks already contain the KV of a prompt's beginning.

KV depends on every token before it, so a block is known by its whole past. Past and block together are a node; the
nodes of a namespace form a tree, and a node finds its children by the bytes of their tokens:

    namespace ── [tokens 0..15] ── [tokens 16..31] ── [tokens 32..36]     a tail: the last block of a finished
                      └──────────── [other 16 tokens]                     sequence, not full

The tree compares tokens, never digests: a hit is right by construction, and costs one dictionary look-up per block.
(A chain of blake2b digests took ten times as long for 8,192 tokens; only the disk tier still needs one.)

What matches no child whole may still share some first tokens with one. Children are also kept in order of their bytes,
where the one that shares most stands next to where the wanted bytes would stand.

A node may have several blocks with equal contents (twins), made by sequences that ran side by side: tables only grow,
they never swap a block for its twin. Knows tokens and block ids; neither tensors nor who holds what.
"""

import struct
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from halfline.errors import InvariantBroken
from halfline.kv.block_pool import Worth
from halfline.model.executor import BLOCK_TOKENS

TOKEN_BYTES = 4
BLOCK_BYTES = BLOCK_TOKENS * TOKEN_BYTES


class Node:
    """Up to one block of tokens after one past. A root has neither parent nor blocks, its namespace instead of tokens.

    `tokens` are at most BLOCK_BYTES; `block_ids` hold them, all with the same contents in these first places.
    """

    __slots__ = ("block_ids", "children", "name", "order", "parent", "tokens")

    def __init__(self, parent: "Node | None", tokens: bytes) -> None:
        self.parent = parent
        self.tokens = tokens
        self.block_ids: list[int] = []
        self.children: dict[bytes, Node] = {}
        self.order: list[bytes] = []  # the children's tokens, sorted
        self.name: bytes | None = None  # a memo of kv/names.py; None until somebody asked

    @property
    def full(self) -> bool:
        return len(self.tokens) == BLOCK_BYTES


@dataclass(frozen=True, slots=True)
class Partial:
    """A block of `node` whose first `num_tokens` tokens are the wanted ones, and the next is not."""

    node: Node
    num_tokens: int

    @property
    def block_id(self) -> int:
        return self.node.block_ids[0]


@dataclass(frozen=True, slots=True)
class Match:
    """What was found: a node per full block, each with one of its blocks, then perhaps a block that begins right.

    `missed` names the first block that was not found whole: its past and its tokens. Two prompts that miss the same
    would compute the same. None: nothing was looked up.
    """

    nodes: tuple[Node, ...]
    block_ids: tuple[int, ...]
    partial: Partial | None
    missed: tuple[Node, bytes] | None

    def first(self, num_blocks: int) -> "Match":
        """Of the full blocks at most so many, and nothing behind them."""
        return Match(self.nodes[:num_blocks], self.block_ids[:num_blocks], None, None)

    @property
    def num_tokens(self) -> int:
        return len(self.nodes) * BLOCK_TOKENS + (0 if self.partial is None else self.partial.num_tokens)


NO_MATCH = Match((), (), None, None)


class PrefixIndex:
    """Finds blocks by the tokens they and their past contain.

    `namespace` keeps apart what must never be shared (kv/namespace.py). `on_new_block` is told of every full block
    that nobody had published before.
    """

    def __init__(self, on_new_block: Callable[[Node], None] = lambda node: None) -> None:
        self._on_new_block = on_new_block
        self._roots: dict[str, Node] = {}  # one small object per namespace, kept for good
        self._by_block: dict[int, Node] = {}

    def __contains__(self, block_id: object) -> bool:
        """Whether the block's contents can still be found."""
        return block_id in self._by_block

    def __len__(self) -> int:
        return len(self._by_block)

    def node_of(self, block_id: int) -> Node | None:
        """Where the block's contents are known; None: they cannot be found."""
        return self._by_block.get(block_id)

    def worth(self, block_id: int) -> Worth:
        """How much is lost when the block is taken for something else."""
        node = self._by_block.get(block_id)
        if node is None:
            return Worth.NOTHING
        return Worth.BLOCK if len(node.tokens) == BLOCK_BYTES else Worth.TAIL

    def root(self, namespace: str) -> Node:
        node = self._roots.get(namespace)
        if node is None:
            node = self._roots[namespace] = Node(None, namespace.encode("utf-8", "surrogatepass"))
        return node

    def match(self, start: Node, blocks: Sequence[bytes], rest: bytes) -> Match:
        """The longest known run of blocks behind `start`, and the longest known beginning of the block after it.

        `blocks` are the tokens behind `start`, BLOCK_BYTES each, of all blocks but the last; `rest` those of the last.
        The very last token is never found: something must be run for logits. Changes nothing: the caller must hold
        the blocks before it takes any.
        """
        nodes: list[Node] = []
        block_ids: list[int] = []
        tail = start
        for tokens in blocks:  # half a thousand for a long prompt: on the way of every keystroke
            try:
                child = tail.children[tokens]
                block_ids.append(child.block_ids[0])
            except (KeyError, IndexError):  # unknown, or known only as what came before others
                return Match(tuple(nodes), tuple(block_ids), _best_partial(tail, tokens), (tail, tokens))
            nodes.append(child)
            tail = child
        return Match(tuple(nodes), tuple(block_ids), _best_partial(tail, rest[:-TOKEN_BYTES]), (tail, rest))

    def publish(self, parent: Node, tokens: bytes, block_id: int) -> Node:
        """Make a computed block findable; its holder keeps it until `forget`."""
        if block_id in self._by_block:
            raise InvariantBroken(f"block {block_id} was published twice")
        if not 0 < len(tokens) <= BLOCK_BYTES or len(tokens) % TOKEN_BYTES:
            raise InvariantBroken(f"a block of {len(tokens)} token bytes was published")
        node = parent.children.get(tokens)
        if node is None:
            node = Node(parent, tokens)
            parent.children[tokens] = node
            insort(parent.order, tokens)
        node.block_ids.append(block_id)
        self._by_block[block_id] = node
        if node.full and len(node.block_ids) == 1:
            self._on_new_block(node)
        return node

    def forget(self, block_ids: Sequence[int]) -> None:
        """The blocks get new contents; those that were never published are passed over."""
        for block_id in block_ids:
            node = self._by_block.pop(block_id, None)
            if node is not None:
                node.block_ids.remove(block_id)
                _prune(node)

    def check(self) -> None:
        """Raise InvariantBroken unless tree and map agree and every node is needed. Walks."""
        listed: dict[int, Node] = {}
        num_listed = 0
        for root in self._roots.values():
            if root.block_ids or root.parent is not None:
                raise InvariantBroken("a namespace's root has contents")
            for node in _below(root):
                listed |= dict.fromkeys(node.block_ids, node)
                num_listed += len(node.block_ids)
        if listed != self._by_block or num_listed != len(listed):
            raise InvariantBroken(f"nodes list blocks {sorted(listed)}, the index {sorted(self._by_block)}")


def token_blocks(token_ids: Sequence[int]) -> tuple[bytes, ...]:
    """Tokens as they are compared, a block at a time, the last perhaps not full: int32, little endian."""
    data = struct.pack(f"<{len(token_ids)}i", *token_ids)
    num_full, num_rest = divmod(len(data), BLOCK_BYTES)
    layout = f"{BLOCK_BYTES}s" * num_full + (f"{num_rest}s" if num_rest else "")
    return struct.unpack(layout, data)  # one call: 512 slices in a loop take five times as long


def _best_partial(parent: Node, wanted: bytes) -> Partial | None:
    """The child that shares most first tokens with `wanted`; None when none shares any."""
    position = bisect_left(parent.order, wanted)
    best: Partial | None = None
    for tokens in parent.order[max(0, position - 1) : position + 1]:
        child = parent.children[tokens]
        shared = _num_shared_tokens(tokens, wanted)
        if child.block_ids and shared > (0 if best is None else best.num_tokens):
            best = Partial(child, shared)
    return best


def _num_shared_tokens(left: bytes, right: bytes) -> int:
    shortest = min(len(left), len(right))
    for first in range(0, shortest, TOKEN_BYTES):
        if left[first : first + TOKEN_BYTES] != right[first : first + TOKEN_BYTES]:
            return first // TOKEN_BYTES
    return shortest // TOKEN_BYTES


def _prune(node: Node) -> None:
    """Drop the node if nothing needs it, then its parent if nothing needs that."""
    while node.parent is not None and not node.block_ids and not node.children:
        parent = node.parent
        del parent.children[node.tokens]
        del parent.order[bisect_left(parent.order, node.tokens)]
        node = parent


def _below(root: Node) -> Iterator[Node]:
    """All nodes below `root`, checked one by one on the way."""
    stack = [root]
    while stack:
        parent = stack.pop()
        if parent.order != sorted(parent.children):
            raise InvariantBroken("a node's children are out of order")
        for tokens, node in parent.children.items():
            if node.parent is not parent or node.tokens != tokens:
                raise InvariantBroken("a node is listed where it does not belong")
            if not node.block_ids and not node.children:
                raise InvariantBroken("a node has neither blocks nor children")
            if node.children and not node.full:
                raise InvariantBroken("a block that is not full has one behind it")
            stack.append(node)
            yield node
