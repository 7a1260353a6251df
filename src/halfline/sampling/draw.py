"""One draw from the distribution that temperature, top-k, top-p and min-p leave of a row of logits.

The filters keep candidates: the `top_k` largest, then the fewest that reach `top_p` of what those weigh, then those of
at least `min_p` of the largest weight. Where nothing is filtered the likeliest stand first, then the rest by id: most
draws end among the first. `draw` looks at the whole row, `draw_from_top` at its largest logits alone; where it can
tell, it says the same.
"""

import numpy as np
from numpy.typing import NDArray

from halfline.request import SamplingParams
from halfline.sampling.top_row import TopRow, weights_of

TOP_LIST = 64
"""How many of the largest logits are worth asking an executor for, so as not to look at all of them."""

_SHORT_LIST = 512

Ids = NDArray[np.int64] | NDArray[np.int32]
Weights = NDArray[np.float64]


def draw(logits: NDArray[np.float32], params: SamplingParams, uniform: float) -> int:
    """The token at the quantile `uniform`, in [0, 1), of the filtered distribution."""
    weights = weights_of(logits, float(logits.max()), params.temperature)
    candidates: NDArray[np.int64] = np.arange(len(logits))
    if not _filters(params):
        likeliest = largest(logits, TOP_LIST)
        candidates = np.concatenate((likeliest, np.delete(candidates, likeliest)))
    if params.top_k:
        candidates = largest(logits, params.top_k)
    if params.top_p < 1.0:
        candidates = _nucleus(logits, weights, candidates, params.top_p)
    if params.min_p > 0.0:
        candidates = candidates[weights[candidates] >= params.min_p]
    return _pick(candidates, weights[candidates], uniform)


def num_top_wanted(params: SamplingParams) -> int:
    """How many of a row's largest logits let `draw_from_top` tell as a rule."""
    return min(params.top_k or TOP_LIST, TOP_LIST)


def draw_from_top(top: TopRow, params: SamplingParams, uniform: float) -> int | None:
    """What `draw` would say of the whole row; None when the largest logits do not tell."""
    if not _filters(params):
        return _draw_unfiltered(top, params.temperature, uniform)
    weights = top.weights(params.temperature)
    complete = 0 < params.top_k <= len(weights)  # whether all candidates are among them
    if complete:
        weights = weights[: params.top_k]
    if params.top_p < 1.0:
        known = float(weights.sum())
        low, high = (known, known) if complete else top.total_weight(params.temperature)
        if params.top_k:
            low = known  # not all of the row are candidates
        sums = np.cumsum(weights)
        fewest, most = np.searchsorted(sums, (params.top_p * low, params.top_p * high)) + 1
        if not complete and (fewest != most or most > len(weights)):
            return None
        weights, complete = weights[:fewest], True
    if params.min_p > 0.0:
        num_kept = int(np.count_nonzero(weights >= params.min_p))
        complete = complete or num_kept < len(weights)
        weights = weights[:num_kept]
    if not complete:
        return None
    candidates = top.ids[: len(weights)]
    if not params.top_k and params.top_p == 1.0:  # nobody ordered them
        order = np.argsort(candidates)
        candidates, weights = candidates[order], weights[order]
    return _pick(candidates, weights, uniform)


def _draw_unfiltered(top: TopRow, temperature: float, uniform: float) -> int | None:
    if len(top.ids) < min(TOP_LIST, top.num_logits):
        return None
    sums = np.cumsum(top.weights(temperature)[:TOP_LIST])
    low, high = top.total_weight(temperature)
    first, last = np.searchsorted(sums, (uniform * low, uniform * high), side="right")
    return int(top.ids[first]) if first == last < len(sums) else None


def _filters(params: SamplingParams) -> bool:
    return params.top_k > 0 or params.top_p < 1.0 or params.min_p > 0.0


def _pick(candidates: Ids, weights: Weights, uniform: float) -> int:
    cumulative = np.cumsum(weights)
    position = int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
    return int(candidates[min(position, len(candidates) - 1)])


def _nucleus(
    logits: NDArray[np.float32], weights: Weights, candidates: NDArray[np.int64], share: float
) -> NDArray[np.int64]:
    """The fewest of the candidates, likeliest first, that together reach `share` of them all; at least one."""
    goal = share * weights[candidates].sum()
    # Sorting a whole vocabulary costs half a decode step, and a short list nearly always reaches the share.
    for size in (_SHORT_LIST, len(candidates)):
        likeliest = candidates[largest(logits[candidates], size)]
        sums = np.cumsum(weights[likeliest])
        if sums[-1] >= goal:
            break
    return likeliest[: int(np.searchsorted(sums, goal)) + 1]


def largest(values: NDArray[np.float32] | NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Ids of the `count` largest values, largest first, the lower id first among equals."""
    if count < len(values):
        smallest = np.partition(values, len(values) - count)[len(values) - count]
        ids = np.flatnonzero(values >= smallest)
    else:
        ids = np.arange(len(values))
    return ids[np.argsort(-values[ids], kind="stable")][:count]
