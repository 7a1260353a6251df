"""Lets the model say first what already stands before the cursor, in tokens of its own choice.

    typed        … return sel█           the prompt ends before the word that the cursor cuts: … return
    forced       " sel"                  " self" may come, " s" and then "elf", but not " the"
    answer       what is written beyond

A model has seen "self" as one token, hardly ever as "sel" and something behind it: a prompt that ends within a word
asks it for what it never saw.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from halfline.request import SamplingParams
from halfline.sampling.sampler import Row, Sampler, Scored, score
from halfline.sampling.top_row import TopRow


class Spellings(Protocol):
    """What tokens stand for, as bytes; control tokens for none."""

    def prepare(self) -> None:
        """Questions will come."""

    def of(self, token_id: int) -> bytes: ...

    def agreeing(self, data: bytes) -> NDArray[np.int64]:
        """Ids of the tokens that `data` begins with, and of those that begin with `data`."""


class HealingSampler(Sampler):
    """Until the tokens spell `forced_text`, only those may come that agree with what is left of it.

    What they agree with changes nothing else: of these the next one is chosen as ever, and scored as the model's own
    distribution has it.
    """

    def __init__(
        self,
        params: SamplingParams,
        prompt_ids: Sequence[int],
        stream: int,
        spellings: Spellings,
        forced_text: str,
    ) -> None:
        super().__init__(params, prompt_ids, stream)
        self._own_params = params
        self._spellings = spellings
        self._left = forced_text.encode()
        spellings.prepare()

    @property
    def takes_the_largest(self) -> bool:
        return not self._left and super().takes_the_largest

    def sample(self, logits: Row, top: TopRow | None = None) -> Scored:
        """Raises FloatingPointError when no token that agrees has a finite logit."""
        if not self._left:
            return super().sample(logits, top)
        ids = self._spellings.agreeing(self._left)
        ids = ids[ids < len(logits)]
        agreeing = np.full_like(logits, -np.inf)
        agreeing[ids] = logits[ids]
        token_id = super().sample(agreeing).token_id
        self._spell(token_id)
        if self._own_params.logprobs is None:
            return Scored(token_id)
        return score(logits, token_id, self._own_params.logprobs)

    def follow(self, token_id: int) -> None:
        super().follow(token_id)
        self._spell(token_id)

    def _spell(self, token_id: int) -> None:
        self._left = self._left[len(self._spellings.of(token_id)) :]
