"""Chooses the next token of one sequence from a row of logits.

In this order: logprobs are read from the model's own distribution; then bias, penalties, temperature,
top-k, top-p, min-p change it; then one draw. Plain greedy is one argmax.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halfline.request import SamplingParams

Row = NDArray[np.float32]  # [vocab]


@dataclass(frozen=True, slots=True)
class Scored:
    """A token and what the model itself thought of it: natural log-probabilities before any filter.

    `logprob` None: it was not asked for. `top` are the likeliest (token id, logprob), best first.
    """

    token_id: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


class Sampler:
    """Owns one sequence's random generator and the counts behind its penalties.

    Every call of `sample` counts the token it returns as output. The generator is the sequence's own, so the same
    seed gives the same tokens whatever else runs; `stream` tells the choices of one request apart.
    """

    def __init__(self, params: SamplingParams, prompt_ids: Sequence[int], stream: int = 0) -> None:
        self._params = params
        self._random = np.random.Generator(np.random.PCG64(_seed(params.seed, stream)))
        self._penalties = _Penalties(params, prompt_ids) if _has_penalties(params) else None
        self._bias_ids = np.fromiter(params.logit_bias.keys(), np.int64)
        self._biases = np.fromiter(params.logit_bias.values(), np.float32)

    def sample(self, logits: Row) -> Scored:
        """Raises FloatingPointError when the logits hold no finite maximum."""
        changed = self._changed(logits)
        token_id = int(changed.argmax())  # ties go to the lowest id, NaN goes to the top
        if not math.isfinite(changed[token_id]):
            raise FloatingPointError(f"the largest logit is {changed[token_id]}")
        if not self._params.greedy:
            token_id = draw(changed, self._params, float(self._random.random()))
        if self._penalties is not None:
            self._penalties.count(token_id)
        if self._params.logprobs is None:
            return Scored(token_id)
        return score(logits, token_id, self._params.logprobs)

    def _changed(self, logits: Row) -> Row:
        """The logits with bias and penalties; the very array when there are none."""
        if self._penalties is None and not len(self._bias_ids):
            return logits
        changed = logits.copy()
        changed[self._bias_ids] += self._biases
        if self._penalties is not None:
            self._penalties.apply(changed)
        return changed


class _Penalties:
    """Repetition counts prompt and output, presence and frequency the output alone (as OpenAI and vLLM do)."""

    def __init__(self, params: SamplingParams, prompt_ids: Sequence[int]) -> None:
        self._params = params
        self._seen = set(prompt_ids)
        self._output: Counter[int] = Counter()

    def count(self, token_id: int) -> None:
        self._seen.add(token_id)
        self._output[token_id] += 1

    def apply(self, logits: Row) -> None:
        seen = np.fromiter(self._seen, np.int64, len(self._seen))
        values, repetition = logits[seen], np.float32(self._params.repetition_penalty)
        logits[seen] = np.where(values > 0, values / repetition, values * repetition)
        output = np.fromiter(self._output.keys(), np.int64, len(self._output))
        counts = np.fromiter(self._output.values(), np.float32, len(self._output))
        logits[output] -= counts * np.float32(self._params.frequency_penalty)
        logits[output] -= np.float32(self._params.presence_penalty)


def draw(logits: Row, params: SamplingParams, uniform: float) -> int:
    """The token at the quantile `uniform`, in [0, 1), of the filtered distribution."""
    candidates, weights = _filtered(logits, params)
    cumulative = np.cumsum(weights)
    position = int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
    return int(candidates[min(position, len(candidates) - 1)])


def _filtered(logits: Row, params: SamplingParams) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The tokens that survive top-k, top-p and min-p, and their weights (the largest is 1)."""
    with np.errstate(over="ignore"):  # a tiny temperature sends all but the best to exp(-inf) = 0
        weights = np.exp((logits.astype(np.float64) - float(logits.max())) / params.temperature)
    candidates = np.arange(len(weights))
    if params.top_k:
        candidates = _largest(weights, params.top_k)
    if params.top_p < 1.0:
        candidates = _nucleus(weights, candidates, params.top_p)
    if params.min_p > 0.0:
        candidates = candidates[weights[candidates] >= params.min_p]
    return candidates, weights[candidates]


def _nucleus(weights: NDArray[np.float64], candidates: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """The fewest of the candidates, likeliest first, that together reach `share` of them all; at least one."""
    total = weights[candidates].sum()
    # Sorting a whole vocabulary costs half a decode step, and a short list nearly always reaches the share.
    for size in (_SHORT_LIST, len(candidates)):
        likeliest = candidates[_largest(weights[candidates], size)]
        sums = np.cumsum(weights[likeliest])
        if sums[-1] >= share * total:
            break
    return likeliest[: int(np.searchsorted(sums, share * total)) + 1]


_SHORT_LIST = 512


def score(logits: Row, token_id: int, num_top: int) -> Scored:
    """The token's log-probability and the `num_top` likeliest ones, in float64 from the raw logits.

    Raises FloatingPointError when the largest logit or the token's own is not finite.
    """
    values = logits.astype(np.float64)
    peak = float(values.max())
    if not (math.isfinite(peak) and math.isfinite(values[token_id])):
        raise FloatingPointError(f"the largest logit is {peak}, token {token_id}'s is {values[token_id]}")
    log_total = peak + math.log(float(np.exp(values - peak).sum()))
    top = [i for i in _largest(values, num_top) if math.isfinite(values[i])] if num_top else ()
    return Scored(
        token_id,
        float(values[token_id]) - log_total,
        tuple((int(i), float(values[i]) - log_total) for i in top),
    )


def _largest(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Ids of the `count` largest values, largest first, the lower id first among equals."""
    if count < len(values):
        smallest = np.partition(values, len(values) - count)[len(values) - count]
        ids = np.flatnonzero(values >= smallest)
    else:
        ids = np.arange(len(values))
    return ids[np.argsort(-values[ids], kind="stable")][:count]


def _has_penalties(params: SamplingParams) -> bool:
    return (params.repetition_penalty, params.presence_penalty, params.frequency_penalty) != (1.0, 0.0, 0.0)


def _seed(seed: int | None, stream: int) -> np.random.SeedSequence:
    """None draws fresh entropy from the system. Negative seeds are taken modulo 2**64."""
    return np.random.SeedSequence(None if seed is None else [seed % 2**64, stream])
