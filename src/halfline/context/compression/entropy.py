"""Entropy of the latest tokens, and a threshold that follows it: what is above is cut (A4, dynamic truncation).

The distribution is that of token counts in a window of the last few tokens, so a step costs the same whatever came
before. Over n tokens of which each kind occurs c times,

    H = log2 n - (1/n) sum c log2 c                                                     in bits

and only the two kinds that come and go change the sum.

The threshold is made of an exponentially weighted mean and deviation (alpha 0.95: a sample's weight has fallen to 36 %
after 20 steps). The articles' rule is 1.2 times the mean. Entropy over a window of n tokens is at most log2 n and in
code seldom much below, so that 1.2 means is mostly more than there can be; mean + k deviations is offered beside it.
"""

import math
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from halfline.context.compression.passes import Budget, LinedPart, LineTokens, Shrunk, without

WINDOW_TOKENS = 48


class WindowEntropy:
    """Of the last `size` tokens, or of as many as there were."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._latest: deque[int] = deque()
        self._counts: Counter[int] = Counter()
        self._sum = 0.0  # of c log2 c

    @property
    def is_full(self) -> bool:
        return len(self._latest) == self._size

    def push(self, token_id: int) -> float:
        """Bits, with this token in the window."""
        if self.is_full:
            self._change(self._latest.popleft(), -1)
        self._latest.append(token_id)
        self._change(token_id, 1)
        num_tokens = len(self._latest)
        return max(0.0, math.log2(num_tokens) - self._sum / num_tokens)

    def _change(self, token_id: int, by: int) -> None:
        before = self._counts[token_id]
        self._sum += _c_log_c(before + by) - _c_log_c(before)
        if before + by:
            self._counts[token_id] = before + by
        else:
            del self._counts[token_id]


def _c_log_c(count: int) -> float:
    return count * math.log2(count) if count else 0.0


class Rule(Protocol):
    """A threshold from what was usual so far."""

    def __call__(self, mean: float, deviation: float) -> float: ...


@dataclass(frozen=True, slots=True)
class TimesMean:
    """The articles' rule: a fifth above the mean, as a margin against cutting by mistake."""

    factor: float = 1.2

    def __call__(self, mean: float, deviation: float) -> float:
        return self.factor * mean


@dataclass(frozen=True, slots=True)
class MeanPlusDeviations:
    num_deviations: float = 1.0

    def __call__(self, mean: float, deviation: float) -> float:
        return mean + self.num_deviations * deviation


class EntropyThreshold:
    """Follows the entropies that it is told.

    Weights are made to sum to one, so that the first sample counts no more than its age allows; a mean that merely
    begins with it would still owe it 36 % after 20 steps.
    """

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._weight = self._sum = self._sum_of_squares = 0.0

    @property
    def value(self) -> float:
        """Infinite before the first sample: nothing is unusual then."""
        if self._weight == 0.0:
            return math.inf
        mean = self._sum / self._weight
        variance = max(0.0, self._sum_of_squares / self._weight - mean * mean)
        return self._rule(mean, math.sqrt(variance))

    def update_threshold(self, entropy: float, alpha: float = 0.95) -> float:
        """The threshold with this sample in it."""
        new = 1.0 - alpha
        self._weight = alpha * self._weight + new
        self._sum = alpha * self._sum + new * entropy
        self._sum_of_squares = alpha * self._sum_of_squares + new * entropy * entropy
        return self.value


class EntropyTruncation:
    """Leaves out lines whose tokens' mean entropy is above what was usual before them in the same part.

    Decided in reading order from what stands before alone: a part that grows at its end keeps all its decisions. The
    first window of a part is not judged, and the budget's size is not looked at.
    """

    def __init__(self, tokens: LineTokens, rule: Rule, window_tokens: int = WINDOW_TOKENS) -> None:
        self._tokens = tokens
        self._rule = rule
        self._window_tokens = window_tokens

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        cut = {(place, each) for place, part in enumerate(parts) for each in self._above(part)}
        return without(parts, cut, "entropy")

    def _above(self, part: LinedPart) -> Iterator[int]:
        window = WindowEntropy(self._window_tokens)
        threshold = EntropyThreshold(self._rule)
        for position, line in enumerate(part.lines):
            usual = threshold.value
            judged = []
            for token_id in self._tokens.ids(line.text):
                entropy = window.push(token_id)
                if window.is_full:
                    judged.append(entropy)
                    threshold.update_threshold(entropy)
            if judged and sum(judged) / len(judged) > usual:
                yield position
