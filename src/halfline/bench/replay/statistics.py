"""From a replay's answers to the numbers that are published: percentiles, ratios with intervals, tokens, worth."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from halfline.bench.replay.dialects import Answer
from halfline.bench.replay.run import Asked, Counted, Outcome, Replayed
from halfline.bench.replay.typed_next import Worth, worth

Array = NDArray[np.float64]
T = TypeVar("T")

PERCENTILES = (50, 95, 99)
AT_ONCE_MS = 10.0
_NUM_RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Percentiles:
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """Theirs over ours; `low` and `high` bound 95 %, from blocks drawn again with replacement, both sides' alike."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """Ours less theirs, keystroke by keystroke; `low` and `high` as of a ratio."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """Prompt tokens computed beyond those that nobody could know, per keystroke; `num_cold` first ones left out."""

    computed: Percentiles
    unknown: Percentiles
    excess: Percentiles
    num_cold: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Of the `num_judged` keystrokes after which the user typed on. `exact` is a share, the others are characters per
    keystroke; `kept_share` is kept characters over shown ones.
    """

    num_judged: int
    exact: float
    common_prefix: float
    kept: float
    kept_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One side over some keystrokes. Times in milliseconds, `first` None where no text ever came; `unanswered` and
    `at_once` are shares of all of them. `unfairness`: of several typists, the worst one's p95 over the best one's.
    """

    name: str
    num_keystrokes: int
    total: Percentiles
    first: Percentiles | None
    unanswered: float
    at_once: float
    generated: float
    tiers: dict[str, float]
    tokens: Excess | None
    quality: Quality | None
    unfairness: float | None


def summarize(replayed: Replayed, outcome: Outcome, chosen: Sequence[int]) -> Summary:
    """Of the keystrokes at the places `chosen`, at least one."""
    answers = [outcome.answers[i] for i in chosen]
    asked = [replayed.asked[i] for i in chosen]
    latencies = _latencies(replayed, answers)
    firsts = [answer.first_ms for answer in answers if answer.first_ms is not None]
    tiers = sorted({answer.tier for answer in answers if answer.tier})
    return Summary(
        name=outcome.name,
        num_keystrokes=len(answers),
        total=percentiles(latencies),
        first=percentiles(np.array(firsts)) if firsts else None,
        unanswered=_share(answers, lambda answer: answer.ms is None),
        at_once=_share(answers, lambda answer: answer.ms is not None and answer.ms <= AT_ONCE_MS),
        generated=float(np.mean([answer.generated_tokens or 0 for answer in answers])),
        tiers={tier: _share(answers, lambda answer, tier=tier: answer.tier == tier) for tier in tiers},  # type: ignore[misc]
        tokens=_excess(asked, [outcome.counted[i] for i in chosen]),
        quality=_quality(asked, answers),
        unfairness=_unfairness(replayed.num_typists, asked, latencies),
    )


def ratios(
    replayed: Replayed, ours: Outcome, theirs: Outcome, chosen: Sequence[int], seed: int = 0
) -> dict[str, Ratio]:
    """By percentile. Keystrokes of a block resemble each other, so blocks are drawn, not keystrokes."""
    mine, other = (_latencies(replayed, [outcome.answers[i] for i in chosen]) for outcome in (ours, theirs))
    drawn = [
        np.percentile(other[rows], PERCENTILES) / np.percentile(mine[rows], PERCENTILES)
        for rows in _drawn(replayed, chosen, seed)
    ]
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    value = np.percentile(other, PERCENTILES) / np.percentile(mine, PERCENTILES)
    return {
        f"p{percentile}": Ratio(float(value[i]), float(low[i]), float(high[i]))
        for i, percentile in enumerate(PERCENTILES)
    }


def differences(
    replayed: Replayed, ours: Outcome, theirs: Outcome, chosen: Sequence[int], seed: int = 0
) -> dict[str, Difference]:
    """Of `exact`, `common_prefix` and `kept`, where the user typed on and both answered; empty: nowhere."""
    judged = [
        i
        for i in chosen
        if replayed.asked[i].typed and ours.answers[i].ms is not None and theirs.answers[i].ms is not None
    ]
    if not judged:
        return {}
    mine, other = (
        np.array([_worths(worth(outcome.answers[i].text, replayed.asked[i].typed)) for i in judged])
        for outcome in (ours, theirs)
    )
    by_keystroke = mine - other
    means = [by_keystroke[rows].mean(axis=0) for rows in _drawn(replayed, judged, seed)]
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    value = by_keystroke.mean(axis=0)
    return {
        name: Difference(float(value[i]), float(low[i]), float(high[i]))
        for i, name in enumerate(("exact", "common_prefix", "kept"))
    }


def _worths(each: Worth) -> tuple[float, float, float]:
    return float(each.exact), float(each.common_prefix), float(each.kept)


def _drawn(replayed: Replayed, chosen: Sequence[int], seed: int) -> Iterator[NDArray[np.intp]]:
    """Rows of `chosen`, many times: whole blocks, drawn with replacement."""
    _, members = np.unique([replayed.asked[i].block for i in chosen], return_inverse=True)
    places = [np.flatnonzero(members == block) for block in range(members.max() + 1)]
    generator = np.random.default_rng(seed)
    for _ in range(_NUM_RESAMPLES):
        yield np.concatenate([places[i] for i in generator.integers(len(places), size=len(places))])


def percentiles(values: Array) -> Percentiles:
    return Percentiles(*(float(value) for value in np.percentile(values, PERCENTILES)))


def places_of(replayed: Replayed, wanted: Callable[[Asked], bool]) -> list[int]:
    """Which of the keystrokes are `wanted`."""
    return [i for i, asked in enumerate(replayed.asked) if wanted(asked)]


def _latencies(replayed: Replayed, answers: Sequence[Answer]) -> Array:
    """Milliseconds. An answer that was given up would have taken longer than the pause, and counts as that long."""
    pause_ms = (replayed.pace.pause_s or 0.0) * 1e3
    return np.array([pause_ms if answer.ms is None else answer.ms for answer in answers])


def _unfairness(num_typists: int, asked: Sequence[Asked], latencies: Array) -> float | None:
    """None for one typist: the others would be compared with nobody."""
    typists = np.array([key.place % num_typists for key in asked])
    slow = [float(np.percentile(latencies[typists == each], 95)) for each in np.unique(typists)]
    return max(slow) / min(slow) if len(slow) > 1 else None


def _excess(asked: Sequence[Asked], counted: Sequence[Counted | None]) -> Excess | None:
    """None when a side never said what it computed, or its prompts are not known."""
    pairs = [
        (each.computed, each.unknown)
        for key, each in zip(asked, counted, strict=True)
        if each is not None and not key.is_first
    ]
    if not pairs:
        return None
    computed, least = np.array(pairs, dtype=np.float64).T
    return Excess(
        computed=percentiles(computed),
        unknown=percentiles(least),
        excess=percentiles(computed - least),
        num_cold=sum(key.is_first for key in asked),
    )


def _quality(asked: Sequence[Asked], answers: Sequence[Answer]) -> Quality | None:
    """None when nothing can be judged: the user typed on nowhere, or no answer came."""
    judged: list[Worth] = [
        worth(answer.text, key.typed)
        for key, answer in zip(asked, answers, strict=True)
        if key.typed and answer.ms is not None
    ]
    if not judged:
        return None
    shown = sum(each.shown for each in judged)
    kept = sum(each.kept for each in judged)
    return Quality(
        num_judged=len(judged),
        exact=_share(judged, lambda each: each.exact),
        common_prefix=sum(each.common_prefix for each in judged) / len(judged),
        kept=kept / len(judged),
        kept_share=kept / shown if shown else 0.0,
    )


def _share(items: Sequence[T], holds: Callable[[T], bool]) -> float:
    return sum(map(holds, items)) / len(items)
