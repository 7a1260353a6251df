"""How far one model's next-token distributions lie from another's, position by position (A8).

Teacher forced: both see the same true tokens, so that differences do not add up over a text. Per position, with
natural logarithms, in float64 from log-sum-exp: KL(baseline ‖ candidate), whether both like the same token best, and
how unlikely each found the true token. Only a few rows of logits exist at any time. Says numbers only; what they mean
in words is `report`'s business.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from halfline.model.executor import CAUSAL, Batch, Executor
from halfline.quality.texts import Window

Array = NDArray[np.float64]

_ROWS_AT_ONCE = 16  # float64 rows of the whole vocabulary: 0.4 MB each for 49,152 tokens
_NUM_RESAMPLES = 2000


class LogitSource(Protocol):
    """A model that shows its whole next-token distribution."""

    def pieces(self, token_ids: NDArray[np.int32], max_rows: int) -> Iterator[NDArray[np.floating[Any]]]:
        """Logits up to a constant per row, [rows, vocab], behind each token of a window that starts afresh.

        Every piece has `max_rows` rows but the last.
        """


class ExecutorLogits:
    """Runs windows through the first blocks of an executor that nobody else uses meanwhile."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def pieces(self, token_ids: NDArray[np.int32], max_rows: int) -> Iterator[NDArray[np.float32]]:
        num_blocks = self._executor.kv_format.num_blocks(len(token_ids))
        for start in range(0, len(token_ids), max_rows):
            piece = token_ids[start : start + max_rows]
            outputs = self._executor.run(
                Batch(
                    token_ids=np.ascontiguousarray(piece, dtype=np.int32),
                    row_starts=np.array([0, len(piece)], np.int32),
                    first_places=np.array([start], np.int32),
                    block_tables=np.arange(num_blocks, dtype=np.int32)[None, :],
                    masks=(CAUSAL,),
                    logit_rows=np.arange(len(piece), dtype=np.int32),
                    hidden_rows=np.array([], np.int32),
                )
            )
            assert outputs is not None, "nobody sets the stop flag of this executor"
            yield outputs.logits


@dataclass(frozen=True, slots=True)
class Scores:
    """One entry per position, in order: arrays [positions], in nats where a unit applies.

    `cluster` is the number of the position's file: positions of one file are not independent.
    """

    kl: Array
    same_top: NDArray[np.bool_]
    baseline_nll: Array
    candidate_nll: Array
    cluster: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Interval:
    """95 %, percentile bootstrap over files."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """A comparison in a few numbers: KL in nats, shares in [0, 1], negative log-likelihoods of the true token as means.

    Intervals are None when there is only one file to resample.
    """

    num_positions: int
    num_files: int
    mean_kl: float
    p50_kl: float
    p99_kl: float
    max_kl: float
    top1_agreement: float
    baseline_nll: float
    candidate_nll: float
    mean_kl_interval: Interval | None
    top1_interval: Interval | None

    @property
    def perplexity_ratio(self) -> float:
        """Candidate over baseline; above 1 the candidate predicts the true text worse."""
        return float(np.exp(self.candidate_nll - self.baseline_nll))


def measure(
    baseline: LogitSource,
    candidate: LogitSource,
    windows: Sequence[Window],
    *,
    max_rows: int = 256,
    advanced: Callable[[int], None] = lambda num_positions: None,
) -> Scores:
    """Score every position of the windows; `advanced` hears how many were done each time.

    Raises ValueError when the two do not share a vocabulary.
    """
    files = {window.file: number for number, window in enumerate(windows)}
    parts: list[Scores] = []
    for window in windows:
        done = 0
        pieces = zip(
            baseline.pieces(window.token_ids[:-1], max_rows),
            candidate.pieces(window.token_ids[:-1], max_rows),
            strict=True,
        )
        for baseline_logits, candidate_logits in pieces:
            for start in range(0, len(baseline_logits), _ROWS_AT_ONCE):
                rows = slice(start, start + _ROWS_AT_ONCE)
                num_rows = len(baseline_logits[rows])
                true_ids = window.token_ids[1 + done : 1 + done + num_rows]
                parts.append(
                    compare_rows(baseline_logits[rows], candidate_logits[rows], true_ids, files[window.file])
                )
                done += num_rows
            advanced(len(baseline_logits))
    return concatenate(parts)


def compare_rows(
    baseline_logits: NDArray[np.floating[Any]],
    candidate_logits: NDArray[np.floating[Any]],
    true_ids: NDArray[np.int32],
    cluster: int,
) -> Scores:
    """Both logits [rows, vocab], true_ids [rows]: the token that really came."""
    if baseline_logits.shape != candidate_logits.shape:
        raise ValueError(
            f"logits of shapes {baseline_logits.shape} and {candidate_logits.shape} cannot be compared"
        )
    baseline, candidate = log_softmax(baseline_logits), log_softmax(candidate_logits)
    likelihood = np.exp(baseline)
    # Where the baseline gives nothing the term is 0, also when the candidate's log-probability is -inf too.
    terms = likelihood * np.subtract(baseline, candidate, out=np.zeros_like(baseline), where=likelihood > 0)
    rows = np.arange(len(true_ids))
    return Scores(
        kl=terms.sum(axis=1),
        same_top=baseline.argmax(axis=1) == candidate.argmax(axis=1),
        baseline_nll=-baseline[rows, true_ids],
        candidate_nll=-candidate[rows, true_ids],
        cluster=np.full(len(true_ids), cluster),
    )


def log_softmax(logits: NDArray[np.floating[Any]]) -> Array:
    """[rows, vocab] in float64."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def concatenate(parts: Sequence[Scores]) -> Scores:
    return Scores(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("kl", "same_top", "baseline_nll", "candidate_nll", "cluster")
        )
    )


def summarize(scores: Scores, *, seed: int = 0) -> Divergence:
    p50, p99 = np.percentile(scores.kl, [50, 99])
    return Divergence(
        num_positions=len(scores.kl),
        num_files=len(np.unique(scores.cluster)),
        mean_kl=float(scores.kl.mean()),
        p50_kl=float(p50),
        p99_kl=float(p99),
        max_kl=float(scores.kl.max()),
        top1_agreement=float(scores.same_top.mean()),
        baseline_nll=float(scores.baseline_nll.mean()),
        candidate_nll=float(scores.candidate_nll.mean()),
        mean_kl_interval=bootstrap_mean(scores.kl, scores.cluster, seed),
        top1_interval=bootstrap_mean(scores.same_top.astype(np.float64), scores.cluster, seed),
    )


def bootstrap_mean(values: Array, cluster: NDArray[np.int64], seed: int) -> Interval | None:
    """Interval of the mean when whole clusters are drawn again with replacement; None for a single cluster."""
    _, members = np.unique(cluster, return_inverse=True)
    counts = np.bincount(members)
    if len(counts) < 2:
        return None
    sums = np.bincount(members, weights=values)
    draws = np.random.default_rng(seed).integers(len(counts), size=(_NUM_RESAMPLES, len(counts)))
    low, high = np.percentile(sums[draws].sum(axis=1) / counts[draws].sum(axis=1), [2.5, 97.5])
    return Interval(float(low), float(high))
