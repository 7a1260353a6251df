"""What a text can do without: importance from uncertainty and attention (A5), and passes that cut by it.

`semantic_prune` is the articles' function, corrected. Attention received is divided by the number of queries that can
see a key (a plain mean gives every key 1/L, a plain sum favours the first), the sinks are left out, the rest is scaled
to mean 1 and cut by quantile; logits behind token t speak of token t + 1. The articles keep what the model is sure of;
pruners that go by surprisal keep what it is not: both are there.

The passes never run a model in order to prune. Their uncertainty is an n-gram model's, which has read the text around
the cursor first; in place of attention stands what the text around the cursor asks for: lines with its names go last.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from halfline.context.compression.ngrams import NgramModel
from halfline.context.compression.passes import (
    Budget,
    LinedPart,
    LineTokens,
    Shrunk,
    rewritten,
    without,
)
from halfline.context.compression.words import Word, holds_structure, names, names_near, words

Array = NDArray[np.float64]
Keeps = Literal["certain", "uncertain"]
"""Which tokens matter: those that the model was sure of (the articles), or those that it could not have guessed."""

NUM_SINKS = 4


def semantic_prune(
    logits: NDArray[np.floating],
    attention_weights: NDArray[np.floating],
    threshold: float = 0.15,
    *,
    keeps: Keeps = "certain",
    protected: NDArray[np.bool_] | None = None,
    num_sinks: int = NUM_SINKS,
) -> NDArray[np.bool_]:
    """Which tokens stay, bool [tokens]; `threshold` is the share of the unprotected that goes.

    logits [tokens, vocab] · attention_weights [..., queries, keys], causal, of any layers and heads · protected bool
    [tokens]. The first token, which nothing predicts, and the sinks stay. Raises ValueError for shapes that do not
    agree and a threshold outside [0, 1].
    """
    num_tokens = len(logits)
    if logits.ndim != 2 or attention_weights.shape[-2:] != (num_tokens, num_tokens):
        raise ValueError(
            f"logits {logits.shape} and attention {attention_weights.shape} are of different tokens"
        )
    if not 0.0 <= threshold <= 1.0:
        raise ValueError(f"threshold is {threshold}, it must be between 0 and 1")
    stays = np.zeros(num_tokens, bool) if protected is None else protected.copy()
    stays[: max(1, num_sinks)] = True
    free = np.flatnonzero(~stays)
    uncertainty = np.zeros(num_tokens)
    uncertainty[1:] = normalised_entropy(logits)[:-1]
    importance = _importance(uncertainty, keeps) * attention_received(attention_weights, num_sinks)
    # The cut is by rank, so that ties go one by one, the earlier first, and the share is met.
    order = free[np.argsort(importance[free], kind="stable")]
    stays[order[int(threshold * len(free)) :]] = True
    return stays


def normalised_entropy(logits: NDArray[np.floating]) -> Array:
    """[rows], 0 for a certain distribution, 1 for a uniform one; in float64 from log-sum-exp."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    weights = np.exp(shifted)
    totals = weights.sum(axis=1)
    with np.errstate(invalid="ignore"):  # -inf x 0: an excluded token
        terms = np.where(weights > 0.0, weights * shifted, 0.0)
    entropy = np.log(totals) - terms.sum(axis=1) / totals
    result: Array = np.clip(entropy / np.log(logits.shape[1]), 0.0, 1.0)
    return result


def attention_received(attention_weights: NDArray[np.floating], num_sinks: int = NUM_SINKS) -> Array:
    """Per key, by those queries that can see it, scaled so that keys behind the sinks have mean 1; sinks are 0."""
    num_tokens = attention_weights.shape[-1]
    weights = attention_weights.astype(np.float64).reshape(-1, num_tokens, num_tokens).mean(axis=0)
    received: Array = weights.sum(axis=0) / np.arange(num_tokens, 0, -1)
    received[:num_sinks] = 0.0
    mean = received[num_sinks:].mean() if num_tokens > num_sinks else 0.0
    return received / mean if mean > 0.0 else received


def _importance(uncertainty: Array, keeps: Keeps) -> Array:
    return 1.0 - uncertainty if keeps == "certain" else uncertainty


class _Importance:
    """Of texts, to an n-gram model that has read the text around the cursor first, and then each text."""

    def __init__(self, tokens: LineTokens, vocab_size: int, keeps: Keeps, budget: Budget) -> None:
        self._tokens = tokens
        self._model = NgramModel(vocab_size)
        self._most = np.log2(vocab_size)
        self._keeps = keeps
        for line in (
            *budget.before[-_READ_FIRST:].splitlines(True),
            *budget.behind[:_READ_FIRST].splitlines(True),
        ):
            self._model.read(tokens.ids(line))

    def read(self, text: str) -> tuple[float, int]:
        """The mean over its tokens, from 0 to 1, and how many these are."""
        token_ids = self._tokens.ids(text)
        uncertainty = np.minimum(1.0, self._model.read(token_ids) / self._most)
        return float(_importance(uncertainty, self._keeps).mean()), len(token_ids)


_READ_FIRST = 4096  # characters before the cursor, and behind


@dataclass(frozen=True, slots=True)
class LinePruning:
    """Leaves out whole lines, the least important first, until the budget is met: those without structure or a name
    from around the cursor, then, if that is not enough, the others.
    """

    tokens: LineTokens
    vocab_size: int
    keeps: Keeps

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        num_over = self.tokens.count(parts) - budget.num_tokens
        if num_over <= 0:
            return without(parts, set(), "importance")
        near = names_near(parts, budget)
        importance = _Importance(self.tokens, self.vocab_size, self.keeps, budget)
        ranked = []
        for place, part in enumerate(parts):
            for position, line in enumerate(part.lines):
                important, num_tokens = importance.read(line.text)
                kept_for = (not near.isdisjoint(names(line.text))) * 2 + holds_structure(line.text)
                ranked.append(((kept_for, important), (place, position), num_tokens))
        return without(parts, _least(ranked, num_over), "importance")


@dataclass(frozen=True, slots=True)
class WordPruning:
    """The articles' form: leaves out words within lines. Keywords, operators, brackets, literals, spaces and names from
    around the cursor stay; of other names and of comments the least important go, whole, until the budget is met or
    none is left.
    """

    tokens: LineTokens
    vocab_size: int
    keeps: Keeps

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        near = names_near(parts, budget)
        importance = _Importance(self.tokens, self.vocab_size, self.keeps, budget)
        cut_up = [[list(words(line.text)) for line in part.lines] for part in parts]
        ranked = []
        for place, lines in enumerate(cut_up):
            for position, line in enumerate(lines):
                for number, word in enumerate(line):
                    important, num_tokens = importance.read(word.text)
                    if word.kind == "comment" or (word.kind == "name" and word.text not in near):
                        ranked.append(((important,), (place, position, number), num_tokens))
        cut = _least(ranked, self.tokens.count(parts) - budget.num_tokens)
        kept = _kept_words(cut_up, lambda *where: where not in cut)
        return rewritten(parts, kept, "importance of words")


_Where = TypeVar("_Where", tuple[int, int], tuple[int, int, int])


def _least(ranked: Iterable[tuple[tuple[float, ...], _Where, int]], num_over: int) -> set[_Where]:
    """The least important by rank, of so many tokens together as are over, or all there are. The earlier first."""
    least = set()
    for _, where, num_tokens in sorted(ranked):
        if num_over <= 0:
            break
        least.add(where)
        num_over -= num_tokens
    return least


def _kept_words(
    cut_up: Sequence[Sequence[Sequence[Word]]], stays: Callable[[int, int, int], bool]
) -> list[list[str | None]]:
    """The lines' texts without the words that go; a line of which only space would be left goes with them."""
    texts: list[list[str | None]] = []
    for place, lines in enumerate(cut_up):
        left: list[str | None] = []
        for position, line in enumerate(lines):
            text = "".join(word.text for number, word in enumerate(line) if stays(place, position, number))
            left.append(text if text.strip() or len(text) == sum(len(w.text) for w in line) else None)
        texts.append(left)
    return texts
