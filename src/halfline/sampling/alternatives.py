"""What else the model might have said: the likeliest next tokens, and how likely each is."""

import math

import numpy as np

from halfline.request import SamplingParams
from halfline.sampling.draw import largest
from halfline.sampling.healing import Spellings
from halfline.sampling.sampler import Row, Sampler, Scored
from halfline.sampling.top_row import TopRow


class AlternativesSampler(Sampler):
    """Takes the best token of those that agree with `forced`, as greedy decoding does.

    `top` are the best `count` of them, scored as if there were no others.
    """

    def __init__(self, spellings: Spellings, forced: bytes, count: int) -> None:
        super().__init__(SamplingParams(), ())
        self._spellings = spellings
        self.forced = forced
        self._count = count

    @property
    def num_top(self) -> int:
        return 0

    @property
    def takes_the_largest(self) -> bool:
        return False

    def sample(self, logits: Row, top: TopRow | None = None) -> Scored:
        """Raises FloatingPointError when no token that agrees has a finite logit."""
        if self.forced:
            agreeing = self._spellings.agreeing(self.forced)
            ids = np.sort(agreeing[agreeing < len(logits)])
        else:
            ids = np.arange(len(logits))
        values = logits[ids].astype(np.float64)
        peak = float(values.max(initial=-math.inf))
        if not math.isfinite(peak):
            raise FloatingPointError(f"the largest logit of those that agree is {peak}")
        log_total = peak + math.log(float(np.exp(values - peak).sum()))
        best = [(int(ids[i]), float(values[i]) - log_total) for i in largest(values, self._count)]
        return Scored(*best[0], top=tuple(best))
