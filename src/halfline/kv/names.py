"""Names for blocks that mean the same in every process that knows the key.

    name(root) = H(scope, namespace)        name(block) = H(name(parent), tokens)        H: blake2b, 32 bytes, keyed

Within a process blocks are found by comparing tokens (kv/prefix_index.py); names are for what outlives it.
"""

from hashlib import blake2b

from halfline.kv.prefix_index import Node

NAME_BYTES = 32


class BlockNames:
    """Without `key` nobody can tell which prompt a name stands for. `scope` says what the KV was computed by."""

    def __init__(self, key: bytes, scope: bytes) -> None:
        self._key = key
        self._scope = scope

    def of(self, node: Node) -> bytes:
        """The node's name. Computed once per node, for its ancestors too."""
        unnamed = []
        while node.name is None and node.parent is not None:
            unnamed.append(node)
            node = node.parent
        name = node.name
        if name is None:
            name = node.name = self._hash(b"root", self._scope + node.tokens)
        for each in reversed(unnamed):
            name = each.name = self.behind(name, each.tokens)
        return name

    def behind(self, parent_name: bytes, tokens: bytes) -> bytes:
        """The name of the block that holds `tokens` after the block called `parent_name`."""
        return self._hash(b"block", parent_name + tokens)

    def _hash(self, kind: bytes, data: bytes) -> bytes:
        return blake2b(data, key=self._key, person=kind, digest_size=NAME_BYTES).digest()
