"""Chooses the next token of one sequence from a row of logits.

In this order: logprobs are read from the model's own distribution; then bias, penalties, temperature,
top-k, top-p, min-p change it; then one draw (draw.py). Plain greedy is one argmax.

Where the row's largest logits, which the executor found while it wrote them, are enough, the rest is not looked at:
a vocabulary in interpreted arrays costs a tenth of a decode step, a hundred logits nothing.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from halfline.request import SamplingParams, Schedule
from halfline.sampling.draw import draw, draw_from_top, largest, num_top_wanted
from halfline.sampling.schedules import AdaptiveSamplingScheduler, entropy_bits
from halfline.sampling.top_row import TopRow

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
        self._stream = stream
        self._penalties = _Penalties(params, prompt_ids) if _has_penalties(params) else None
        self._schedule = None if params.schedule is None else _scheduler(params.schedule)
        self._widest = params if params.schedule is None else replace(params, top_k=params.schedule.k_max)
        self._num_tokens = 0  # behind the prompt
        self._bias_ids = np.fromiter(params.logit_bias.keys(), np.int64)
        self._biases = np.fromiter(params.logit_bias.values(), np.float32)

    @property
    def num_top(self) -> int:
        """How many of each row's largest logits `sample` has a use for."""
        chooses = 0
        if not self._changes:
            chooses = 1 if self._params.greedy else num_top_wanted(self._widest)
        return max(chooses, num_top_scored(self._params.logprobs))

    @property
    def takes_the_largest(self) -> bool:
        """Whether each token from now on is the one with the model's largest logit, and nothing else is wanted of it.

        Then an executor may choose them; `follow` says which it took.
        """
        return self._params.greedy and self._params.logprobs is None and not self._changes

    def sample(self, logits: Row, top: TopRow | None = None) -> Scored:
        """The next token. `top` saves looking at the whole row, and changes nothing: the same token, its logprob to
        the executor's precision.

        Raises FloatingPointError when the logits hold no finite maximum.
        """
        token_id = self._choose(logits, top)
        self._num_tokens += 1
        if self._penalties is not None:
            self._penalties.count(token_id)
        if self._params.logprobs is None:
            return Scored(token_id)
        return score(logits, token_id, self._params.logprobs, top)

    @cached_property
    def _random(self) -> np.random.Generator:
        """Made when it is needed: greedy never does, and it takes as long as reading a known answer."""
        return np.random.Generator(np.random.PCG64(_seed(self._params.seed, self._stream)))

    def follow(self, token_id: int) -> None:
        """The token comes next, without having been sampled: it was known, or the executor took the largest."""
        self._num_tokens += 1
        if self._penalties is not None:
            self._penalties.count(token_id)

    def _choose(self, logits: Row, top: TopRow | None) -> int:
        if top is None or self._changes:
            return self._choose_from(self._changed(logits))
        if self._params.greedy:
            return int(top.ids[0])
        params = self._scheduled(logits)
        uniform = float(self._random.random())
        drawn = draw_from_top(top, params, uniform)
        return draw(logits, params, uniform) if drawn is None else drawn

    def _choose_from(self, logits: Row) -> int:
        token_id = int(logits.argmax())  # ties go to the lowest id, NaN goes to the top
        if not math.isfinite(logits[token_id]):
            raise FloatingPointError(f"the largest logit is {logits[token_id]}")
        if self._params.greedy:
            return token_id
        return draw(logits, self._scheduled(logits), float(self._random.random()))

    def _scheduled(self, logits: Row) -> SamplingParams:
        """The parameters of the next token, which is chosen from those logits."""
        if self._schedule is None or self._params.schedule is None:
            return self._params
        if self._params.schedule.by == "step":
            temperature, top_k = self._schedule.at_step(self._num_tokens)
        else:
            temperature, top_k = self._schedule.at_entropy(entropy_bits(logits))
        return replace(self._params, temperature=temperature, top_k=top_k)

    @property
    def _changes(self) -> bool:
        """Whether it chooses from other logits than the model's."""
        return self._penalties is not None or len(self._bias_ids) > 0

    def _changed(self, logits: Row) -> Row:
        """The logits with bias and penalties; the very array when there are none."""
        if not self._changes:
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


def num_top_scored(num_top: int | None) -> int:
    """How many of a row's largest logits save `score` from looking at the rest; None: nothing is scored."""
    return 0 if num_top is None else max(1, num_top)


def score(logits: Row, token_id: int, num_top: int, top: TopRow | None = None) -> Scored:
    """The token's log-probability and the `num_top` likeliest ones, in float64 from the raw logits.

    Raises FloatingPointError when the largest logit or the token's own is not finite.
    """
    if top is None or len(top.ids) < min(num_top, len(logits)):
        return _score_whole(logits, token_id, num_top)
    likeliest = zip(top.ids[:num_top].tolist(), top.logits[:num_top].tolist(), strict=True)
    return Scored(
        token_id,
        float(logits[token_id]) - top.log_total,
        tuple((each, logit - top.log_total) for each, logit in likeliest),
    )


def _score_whole(logits: Row, token_id: int, num_top: int) -> Scored:
    values = logits.astype(np.float64)
    peak = float(values.max())
    if not (math.isfinite(peak) and math.isfinite(values[token_id])):
        raise FloatingPointError(f"the largest logit is {peak}, token {token_id}'s is {values[token_id]}")
    log_total = peak + math.log(float(np.exp(values - peak).sum()))
    top = [i for i in largest(values, num_top) if math.isfinite(values[i])] if num_top else ()
    return Scored(
        token_id,
        float(values[token_id]) - log_total,
        tuple((int(i), float(values[i]) - log_total) for i in top),
    )


def _scheduler(schedule: Schedule) -> AdaptiveSamplingScheduler:
    return AdaptiveSamplingScheduler(
        schedule.base_temp, schedule.min_temp, schedule.k_min, schedule.k_max, schedule.decay_rate
    )


def _has_penalties(params: SamplingParams) -> bool:
    return (params.repetition_penalty, params.presence_penalty, params.frequency_penalty) != (1.0, 0.0, 0.0)


def _seed(seed: int | None, stream: int) -> np.random.SeedSequence:
    """None draws fresh entropy from the system. Negative seeds are taken modulo 2**64."""
    return np.random.SeedSequence(None if seed is None else [seed % 2**64, stream])
