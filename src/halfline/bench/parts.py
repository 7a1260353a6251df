"""Where the time of a step goes, found by leaving parts out and taking differences of whole steps.

    head        a step that asks for a token, minus the same step that asks for a hidden state
    attention   a step behind a long context, minus one behind a block of 16 places; for a prefill, one sequence of n
                tokens minus n/16 sequences of 16, whose attention is small
    layers      what remains: the layers' matrices with norms, rotations, quantisation and barriers

Rows at the first 16 places of a sequence are multiplied in two terms (csrc/batch_plan.cpp). Variants that are
subtracted have equally many of them, or the difference would be theirs.

Nothing inside the engine is instrumented, so nothing is slowed down by being watched. The variants of a step take
turns and the median of each is used; a difference smaller than the machine's noise is no result, and comes out as
None.
"""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from halfline.bench.limits import Limits
from halfline.bench.steps import (
    Int32s,
    Kind,
    batch_of,
    blocks_for,
    decode_seconds,
    fill,
    prefill_seconds,
    random_tokens,
    run_seconds,
)
from halfline.bench.work import ModelWork, Work
from halfline.model.executor import BLOCK_TOKENS, Batch, Executor

_DECODE_STEPS = 16
_BLOCKS_OF_SHORT = 2  # one behind another, of each short sequence of a prefill


@dataclass(frozen=True, slots=True)
class Part:
    """Time and necessary work of one part of one step; `seconds` None when it was lost in noise."""

    name: str
    seconds: float | None
    work: Work

    def share(self, limits: Limits) -> float | None:
        """Of the machine's limit: 1.0 is as fast as can be."""
        return None if self.seconds is None else self.work.least_seconds(limits) / self.seconds


def decode_parts(executor: Executor, work: ModelWork, depth: int, *, looks: int) -> list[Part]:
    """Of one decode step of one sequence behind `depth` tokens, a block or more."""
    fill(executor, 1, depth, blocks_for(depth + _DECODE_STEPS))

    def seconds(first_place: int, wanted: Kind) -> float:
        took = decode_seconds(
            executor, num_sequences=1, first_place=first_place, steps=_DECODE_STEPS, wanted=wanted
        )
        return took / _DECODE_STEPS

    times = _medians(
        {
            "deep": lambda: seconds(depth, "choices"),
            "no token": lambda: seconds(depth, "hidden"),
            "shallow": lambda: seconds(BLOCK_TOKENS, "choices"),
        },
        looks,
    )
    middle = depth + _DECODE_STEPS // 2
    near = BLOCK_TOKENS + _DECODE_STEPS // 2
    attention = _without(work.attention(middle, 1, 1), work.attention(near, 1, 1))
    head = times["deep"] - times["no token"]
    kv_seconds = times["deep"] - times["shallow"]
    return [
        Part("layers", _positive(times["deep"] - head - kv_seconds), work.layers(1, 1)),
        Part("attention", _positive(kv_seconds), attention),
        Part("head", _positive(head), work.head.work(1)),
        Part("whole step", times["deep"], work.step([(middle, 1)], 1)),
    ]


def prefill_blocks(num_tokens: int) -> int:
    """How many blocks the executor of `prefill_parts` must have."""
    return max(blocks_for(num_tokens), _BLOCKS_OF_SHORT * (num_tokens // BLOCK_TOKENS))


def prefill_parts(executor: Executor, work: ModelWork, num_tokens: int, *, looks: int) -> list[Part]:
    """Of one step of `num_tokens` new tokens, cut to whole blocks."""
    num_short = num_tokens // BLOCK_TOKENS
    num_tokens = num_short * BLOCK_TOKENS
    fill(executor, num_short, BLOCK_TOKENS, _BLOCKS_OF_SHORT)
    short = _short_sequences(random_tokens(executor, num_tokens), num_short)
    times = _medians(
        {
            "long": lambda: prefill_seconds(executor, num_tokens),
            "short": lambda: run_seconds(executor, short),
        },
        looks,
    )
    near = work.step([(0, BLOCK_TOKENS)] + [(BLOCK_TOKENS, BLOCK_TOKENS)] * (num_short - 1), 1)
    whole = work.step([(0, num_tokens)], 1)
    # The short sequences' own attention and the one row of logits stay with the layers.
    return [
        Part("layers", times["short"], near),
        Part(
            "attention",
            _positive(times["long"] - times["short"]),
            _without(whole, near),
        ),
        Part("whole step", times["long"], whole),
    ]


def _short_sequences(token_ids: Int32s, num_sequences: int) -> Batch:
    """The rows of one long sequence as many: one begins at place 0, the others behind a block that holds KV already.

    As of the long one, 16 rows are multiplied in two terms and one row is asked for its logits.
    """
    batch = batch_of(token_ids, num_sequences, BLOCK_TOKENS, _BLOCKS_OF_SHORT)
    first_places = batch.first_places.copy()
    first_places[0] = 0
    return replace(batch, first_places=first_places, logit_rows=batch.logit_rows[-1:])


def _medians(variants: Mapping[str, Callable[[], float]], num_looks: int) -> dict[str, float]:
    looks: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(num_looks):
        for name, variant in variants.items():
            looks[name].append(variant())
    return {name: statistics.median(values) for name, values in looks.items()}


def _without(whole: Work, part: Work) -> Work:
    """No bytes where the part alone reads more: many short sequences read their first blocks each for itself."""
    rest = whole + part.times(-1)
    return replace(rest, num_bytes=max(0.0, rest.num_bytes))


def _positive(seconds: float) -> float | None:
    return seconds if seconds > 0 else None
