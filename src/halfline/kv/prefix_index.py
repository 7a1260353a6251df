"""Which blocks already contain the KV of a prompt's beginning.

KV depends on every token before it, so a full block is known by its whole past. Past and block together are a
node; nodes form a tree whose edges are found by a keyed hash, not by walking:

    namespace ── [tokens 0..15] ── [tokens 16..31] ── …        digest = H(parent's digest + the tokens' bytes)
                      └──────────── [other 16 tokens]

A digest alone proves nothing: a hit also compares the tokens, and that the parent is the very node reached
before, so even a colliding hash only costs time. A node may have several blocks with equal contents (twins), made
by sequences that ran side by side: tables only grow, they never swap a block for its twin.

Knows tokens and block ids; neither tensors nor who holds what.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from halfline.errors import InvariantBroken
from halfline.model.executor import BLOCK_TOKENS

_BLOCK_BYTES = BLOCK_TOKENS * 4


class Node:
    """One full block of tokens after one past. `tokens` is None for a namespace's root, which has no blocks."""

    __slots__ = ("block_ids", "digest", "num_children", "parent", "tokens")

    def __init__(self, parent: "Node | None", tokens: bytes | None, digest: bytes) -> None:
        self.parent = parent
        self.tokens = tokens
        self.digest = digest
        self.block_ids: list[int] = []
        self.num_children = 0


@dataclass(frozen=True, slots=True)
class Match:
    """What was found: one node per block, and the digest of the first block that was not; None: all were."""

    nodes: tuple[Node, ...]
    missed: bytes | None

    @property
    def block_ids(self) -> list[int]:
        return [node.block_ids[0] for node in self.nodes]


class PrefixIndex:
    """Finds blocks by the tokens they and their past contain. `key` makes digests unguessable from outside.

    `namespace` keeps apart what must never be shared: tenants (C8), models, KV formats, masks, adapters.
    """

    def __init__(self, key: bytes, digest_bytes: int = 16) -> None:
        self._key = key
        self._digest_bytes = digest_bytes
        self._roots: dict[str, Node] = {}  # one small object per namespace, kept for good
        self._by_digest: dict[bytes, list[Node]] = {}
        self._by_block: dict[int, Node] = {}

    def __contains__(self, block_id: object) -> bool:
        """Whether the block's contents can still be found."""
        return block_id in self._by_block

    def __len__(self) -> int:
        return len(self._by_block)

    def root(self, namespace: str) -> Node:
        node = self._roots.get(namespace)
        if node is None:
            digest = blake2b(namespace.encode(), key=self._key, digest_size=self._digest_bytes).digest()
            node = self._roots[namespace] = Node(None, None, digest)
        return node

    def match(self, start: Node, token_ids: Sequence[int], max_blocks: int) -> Match:
        """The longest known run of full blocks behind `start`, at most `max_blocks`.

        `token_ids` begin where `start` ends. Changes nothing: the caller must hold the blocks before it takes any.
        """
        tokens = token_bytes(token_ids[: max_blocks * BLOCK_TOKENS])
        nodes: list[Node] = []
        tail = start
        for first in range(0, len(tokens), _BLOCK_BYTES):
            block = tokens[first : first + _BLOCK_BYTES]
            digest = self.digest(tail, block)
            node = self._find(tail, block, digest)
            if node is None or not node.block_ids:
                return Match(tuple(nodes), digest)
            nodes.append(node)
            tail = node
        return Match(tuple(nodes), None)

    def digest(self, parent: Node, tokens: bytes) -> bytes:
        """The name of the block that holds `tokens` (int32, little endian) behind `parent`."""
        return blake2b(parent.digest + tokens, key=self._key, digest_size=self._digest_bytes).digest()

    def publish(self, parent: Node, tokens: bytes, block_id: int) -> Node:
        """Make a full, computed block findable; its holder keeps it until `forget`."""
        if block_id in self._by_block:
            raise InvariantBroken(f"block {block_id} was published twice")
        digest = self.digest(parent, tokens)
        node = self._find(parent, tokens, digest)
        if node is None:
            node = Node(parent, tokens, digest)
            self._by_digest.setdefault(digest, []).append(node)
            parent.num_children += 1
        node.block_ids.append(block_id)
        self._by_block[block_id] = node
        return node

    def forget(self, block_ids: Sequence[int]) -> None:
        """The blocks get new contents; those that were never published are passed over."""
        for block_id in block_ids:
            node = self._by_block.pop(block_id, None)
            if node is not None:
                node.block_ids.remove(block_id)
                self._prune(node)

    def check(self) -> None:
        """Raise InvariantBroken unless the maps agree and every node is needed. Walks."""
        nodes = [node for bucket in self._by_digest.values() for node in bucket]
        listed = {block_id: node for node in nodes for block_id in node.block_ids}
        if listed != self._by_block or sum(len(node.block_ids) for node in nodes) != len(listed):
            raise InvariantBroken(f"nodes list blocks {sorted(listed)}, the index {sorted(self._by_block)}")
        for node in [*nodes, *self._roots.values()]:
            if node.num_children != sum(child.parent is node for child in nodes):
                raise InvariantBroken(f"a node counts {node.num_children} children and has others")
        for node in nodes:
            if not node.block_ids and not node.num_children:
                raise InvariantBroken("a node has neither blocks nor children")

    def _find(self, parent: Node, tokens: bytes, digest: bytes) -> Node | None:
        for node in self._by_digest.get(digest, ()):
            if node.parent is parent and node.tokens == tokens:
                return node
        return None

    def _prune(self, node: Node) -> None:
        """Drop the node if nothing needs it, then its parent if nothing needs that."""
        while node.parent is not None and not node.block_ids and not node.num_children:
            bucket = self._by_digest[node.digest]
            bucket.remove(node)
            if not bucket:
                del self._by_digest[node.digest]
            node = node.parent
            node.num_children -= 1


def token_bytes(token_ids: Sequence[int]) -> bytes:
    """Tokens as they are hashed and compared: int32, little endian."""
    return np.array(token_ids, dtype="<i4").tobytes()
