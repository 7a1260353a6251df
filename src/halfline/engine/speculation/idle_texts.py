"""Indexes of sequences that ended, for the next one that begins alike.

The next keystroke's prompt is nearly the last one's: bringing its index up to date costs a few tokens, a new one
costs them all.
"""

from halfline.engine.speculation.repeats import Repeats

_MAX_TOKENS = 1 << 16  # over all namespaces; a token takes about 200 bytes here
_MAX_LOOKED_AT = 2


class IdleTexts:
    """Forgets what was put in first. Namespaces never see each other's."""

    def __init__(self) -> None:
        self._texts: list[tuple[str, Repeats]] = []  # the oldest first
        self._num_tokens = 0

    def put(self, namespace: str, repeats: Repeats) -> None:
        """Hand over an index that nobody uses any more."""
        self._texts.append((namespace, repeats))
        self._num_tokens += len(repeats)
        while self._num_tokens > _MAX_TOKENS:
            self._num_tokens -= len(self._texts.pop(0)[1])

    def take(self, namespace: str, token_ids: list[int]) -> Repeats:
        """An index of exactly these tokens: one of the latest in the namespace if most of it can stay, or a new one."""
        best, num_kept = None, max(_MIN_KEPT, len(token_ids) // 2)
        for text in [text for text in self._texts if text[0] == namespace][-_MAX_LOOKED_AT:]:
            num_alike = text[1].num_alike(token_ids)
            if num_alike > num_kept:
                best, num_kept = text, num_alike
        if best is None:
            return Repeats(token_ids)
        self._texts.remove(best)
        self._num_tokens -= len(best[1])
        best[1].become(token_ids, num_kept)
        return best[1]


_MIN_KEPT = 64
