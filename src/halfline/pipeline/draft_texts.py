"""What stands around a prompt in its document, indexed so that the engine can guess from it.

The rest of the file is the best place to look for an answer that the prompt does not hold. It hardly changes while
one types, so it is encoded once. Whether it helps is the engine's to measure; it never changes an answer.
"""

from collections import OrderedDict

from halfline.engine.speculation.repeats import Repeats
from halfline.errors import UnencodableText
from halfline.text.tokenizer import Tokenizer

_MAX_CHARACTERS = 1 << 13  # on each side: to encode and index them takes about one decode step, once
_MAX_KEPT = 8


class DraftTexts:
    """Keeps the latest texts' indexes, each tenant's apart: not even its speed tells what another one has open."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._kept: OrderedDict[tuple[str, str], Repeats] = OrderedDict()  # by tenant and text

    def around(self, tenant: str, before: str, behind: str) -> tuple[Repeats, ...]:
        """Indexes of what is left out `before` the window and of what is `behind` the cursor, as far as it is near."""
        texts = (behind[:_MAX_CHARACTERS], before[-_MAX_CHARACTERS:])
        return tuple(self._index(tenant, text) for text in texts if text)

    def _index(self, tenant: str, text: str) -> Repeats:
        key = (tenant, text)
        index = self._kept.pop(key, None)
        if index is None:
            try:
                index = Repeats(self._tokenizer.encode(text, add_bos=False))
            except UnencodableText:  # half a character, and no part of the prompt: nobody's mistake
                index = Repeats()
        self._kept[key] = index
        if len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
        return index
