"""When not to show: an answer that the model itself does not believe in costs a glance and gives nothing.

The measure is the probability of the answer's first tokens, their geometric mean: exp of the mean log-probability. It
is known after a few tokens, so an answer that is not going to be shown is not computed to its end.
"""

import math

from halfline.sampling.sampler import Scored

NUM_JUDGED = 4
"""Tokens that decide."""


class Confidence:
    """A filter and a judge (sampling/reader.py): holds the text back until enough tokens were seen, then lets
    everything through, or nothing.
    """

    rule = "min_confidence"

    def __init__(self, minimum: float) -> None:
        self._minimum = minimum
        self._num_seen = 0
        self._total_logprob = 0.0
        self._held = ""
        self._shows = False
        self.stopped = False

    @property
    def confidence(self) -> float | None:
        return math.exp(self._total_logprob / self._num_seen) if self._num_seen else None

    def see(self, token: Scored) -> None:
        if self._num_seen == NUM_JUDGED:
            return
        assert token.logprob is not None  # Postprocessing.params asks for them
        self._num_seen += 1
        self._total_logprob += token.logprob

    def push(self, text: str) -> str:
        if self._shows:
            return text
        self._held += text
        return self._decide() if self._num_seen == NUM_JUDGED else ""

    def finish(self) -> str:
        return "" if self._shows else self._decide()

    def _decide(self) -> str:
        confidence = self.confidence
        self._shows = confidence is None or confidence >= self._minimum
        self.stopped = not self._shows
        return self._held if self._shows else ""
