"""The gates pass what is exact and catch every damage we know."""

from collections.abc import Callable

import numpy as np
import pytest

from halfline.model.executor import Executor
from halfline.model.random_model import random_checkpoint
from halfline.model.reference import ReferenceExecutor
from halfline.quality.damage import Damaged, NoisyLogits, OffByOne, WrongKVRow
from halfline.quality.divergence import Divergence, ExecutorLogits, measure, summarize
from halfline.quality.gate import LOSSLESS, NEAR_LOSSLESS, Breach, Gate
from halfline.quality.texts import Window

WINDOWS = [
    Window(name, np.random.default_rng(seed).integers(256, size=64).astype(np.int32))
    for seed, name in enumerate("abcd")
]


def reference() -> ReferenceExecutor:
    return ReferenceExecutor(random_checkpoint(), num_blocks=4)


def compare(candidate: Executor) -> Divergence:
    return summarize(measure(ExecutorLogits(reference()), ExecutorLogits(candidate), WINDOWS, max_rows=8))


def test_an_undamaged_executor_passes_the_lossless_gate() -> None:
    assert LOSSLESS.breaches(compare(Damaged(reference()))) == ()


@pytest.mark.parametrize(
    "damaged",
    [
        lambda executor: NoisyLogits(executor, 0.3, np.random.default_rng(0)),
        lambda executor: WrongKVRow(executor, place=3),
        OffByOne,
    ],
    ids=["noise on the logits", "one wrong KV row", "positions off by one"],
)
def test_every_known_damage_trips_both_gates(damaged: Callable[[Executor], Executor]) -> None:
    divergence = compare(damaged(reference()))
    assert LOSSLESS.breaches(divergence)
    assert NEAR_LOSSLESS.breaches(divergence)


def test_a_breach_names_the_metric_and_both_numbers() -> None:
    divergence = compare(NoisyLogits(reference(), 0.3, np.random.default_rng(0)))
    gate = Gate(max_mean_kl=1e-9, max_p99_kl=1e9, min_top1=0.0)
    assert gate.breaches(divergence) == (Breach("mean_kl", divergence.mean_kl, 1e-9),)


def test_a_candidate_that_answers_not_a_number_does_not_pass() -> None:
    divergence = compare(NoisyLogits(reference(), float("nan"), np.random.default_rng(0)))
    assert [breach.metric for breach in NEAR_LOSSLESS.breaches(divergence)][:2] == ["mean_kl", "p99_kl"]
