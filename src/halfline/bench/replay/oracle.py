"""How many tokens of a prompt nobody could have known: those behind the first that differs from all earlier prompts."""

from collections.abc import Sequence
from typing import TypeAlias

_Node: TypeAlias = "dict[int, _Node]"


class Oracle:
    """All prompts of one session as a trie; a cache without limits."""

    def __init__(self) -> None:
        self._root: _Node = {}

    def unknown(self, token_ids: Sequence[int]) -> int:
        """How many of the tokens follow the longest beginning of an earlier prompt; the prompt is one from now on.

        At least 1: the last token is run even when all are known, for the logits behind it.
        """
        node, num_known = self._root, 0
        for token_id in token_ids:
            following = node.get(token_id)
            if following is None:
                break
            node, num_known = following, num_known + 1
        for token_id in token_ids[num_known:]:
            node[token_id] = node = {}
        return max(1, len(token_ids) - num_known)
