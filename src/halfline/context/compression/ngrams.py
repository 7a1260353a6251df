"""How surprising tokens are to one who knows only what was read just now: an interpolated trigram model.

Witten and Bell's interpolation: what a context did not show yet is as probable as it showed new things so far, and is
shared out by the next shorter context; in the end every token of the vocabulary is equally probable. About 10 us a
token, a hundredth of reading it with a model.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_LENGTHS = (0, 1, 2)  # of contexts


class NgramModel:
    """Learns from every token that it is asked about."""

    def __init__(self, vocab_size: int) -> None:
        self._uniform = 1.0 / vocab_size
        self._following: defaultdict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        self._totals: Counter[tuple[int, ...]] = Counter()

    def read(self, token_ids: Sequence[int]) -> NDArray[np.float64]:
        """Bits of surprisal of each token, given those before it and all texts read earlier."""
        bits = np.empty(len(token_ids))
        context: tuple[int, ...] = ()
        for position, token_id in enumerate(token_ids):
            probability = self._uniform
            for length in _LENGTHS[: len(context) + 1]:
                known = context[len(context) - length :]
                following = self._following[known]
                num_new, total = len(following), self._totals[known]
                if total:
                    probability = (following[token_id] + num_new * probability) / (total + num_new)
            bits[position] = -math.log2(probability)
            for length in _LENGTHS[: len(context) + 1]:
                known = context[len(context) - length :]
                self._following[known][token_id] += 1
                self._totals[known] += 1
            context = (*context, token_id)[-_LENGTHS[-1] :]
        return bits
