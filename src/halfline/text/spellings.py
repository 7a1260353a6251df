"""All tokens of a vocabulary by what they spell, so that those which agree with given bytes are found at once."""

from bisect import bisect_left
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from halfline.text.tokenizer import Tokenizer


class Spellings:
    """Made in no time; the first question sorts the vocabulary, 0.1 s for 50,000 tokens. Safe to share among threads.

    Control tokens spell nothing.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def of(self, token_id: int) -> bytes:
        return b"" if self._tokenizer.is_special(token_id) else self._tokenizer.token_bytes(token_id)

    def agreeing(self, data: bytes) -> NDArray[np.int64]:
        """Ids of the tokens that `data`, at least one byte, begins with, and of those that begin with `data`."""
        spellings, ids = self._sorted
        parts = [ids[self._at_least(data) : self._at_least(data + b"\xff" * self._longest)]]
        for length in range(1, len(data)):
            start = self._at_least(data[:length])
            stop = start
            while stop < len(spellings) and spellings[stop] == data[:length]:
                stop += 1
            parts.append(ids[start:stop])
        return np.concatenate(parts)

    def _at_least(self, data: bytes) -> int:
        return bisect_left(self._sorted[0], data)

    @cached_property
    def _sorted(self) -> tuple[list[bytes], NDArray[np.int64]]:
        spelt = ((self.of(token_id), token_id) for token_id in range(self._tokenizer.vocab_size))
        pairs = sorted(pair for pair in spelt if pair[0])
        return [data for data, _ in pairs], np.array([token_id for _, token_id in pairs], np.int64)

    @cached_property
    def _longest(self) -> int:
        return max((len(data) for data in self._sorted[0]), default=0)
