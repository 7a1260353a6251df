"""All tokens of a vocabulary by what they spell, so that those which agree with given bytes are found at once."""

import threading
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfline.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class _Table:
    """Spellings in order, their tokens, and the length of the longest."""

    spellings: list[bytes]
    ids: NDArray[np.int64]
    longest: int

    def at_least(self, data: bytes) -> int:
        return bisect_left(self.spellings, data)


class Spellings:
    """Made in no time; the vocabulary is sorted once, 0.1 s for 50,000 tokens. Safe to share among threads.

    Control tokens spell nothing.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._table: _Table | None = None
        self._preparing = False
        self._door = threading.Lock()

    def prepare(self) -> None:
        """Begin to sort, in a thread of its own: the first question comes when a prompt has been computed."""
        if not self._preparing:
            self._preparing = True
            threading.Thread(target=self._sorted, name="halfline-spellings").start()

    def of(self, token_id: int) -> bytes:
        return b"" if self._tokenizer.is_special(token_id) else self._tokenizer.token_bytes(token_id)

    def agreeing(self, data: bytes) -> NDArray[np.int64]:
        """Ids of the tokens that `data`, at least one byte, begins with, and of those that begin with `data`."""
        table = self._sorted()
        parts = [table.ids[table.at_least(data) : table.at_least(data + b"\xff" * table.longest)]]
        for length in range(1, len(data)):
            start = table.at_least(data[:length])
            stop = start
            while stop < len(table.spellings) and table.spellings[stop] == data[:length]:
                stop += 1
            parts.append(table.ids[start:stop])
        return np.concatenate(parts)

    def _sorted(self) -> _Table:
        with self._door:
            if self._table is None:
                spelt = ((self.of(token_id), token_id) for token_id in range(self._tokenizer.vocab_size))
                pairs = sorted(pair for pair in spelt if pair[0])
                spellings = [data for data, _ in pairs]
                ids = np.array([token_id for _, token_id in pairs], np.int64)
                self._table = _Table(spellings, ids, max(map(len, spellings), default=0))
            return self._table
