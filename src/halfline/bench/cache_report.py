"""What the replay of the caches found, by tier: shares, latencies beside a miss of the same run, false hits."""

import gzip
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from halfline.bench.cache_replay import GUESSING, Asked, Replayed
from halfline.bench.cache_requests import MIX, SKEW

_ROWS_AT_ONCE = 100

TIERS = ("miss", "exact", "typed", "http", "syntax", "semantic")


def summary(replayed: Replayed) -> dict[str, object]:
    """Plain data; milliseconds. A miss is who was helped by no guess."""
    asked = replayed.asked
    misses = [each for each in asked if each.tier == "miss" and not each.num_agreed]
    by_tier = {tier: [each for each in asked if each.tier == tier] for tier in TIERS}
    by_tier["miss"] = misses
    by_guess = {
        tier: [each for each in asked if each.guessed_by == tier and each.num_agreed] for tier in GUESSING
    }
    tiers = {tier: _tier(own, len(asked), misses) for tier, own in by_tier.items()}
    return {
        "requests": len(asked),
        "mix": dict(MIX),
        "zipf_exponent": SKEW,
        "sources": dict(Counter(each.source for each in asked)),
        "tiers": {tier: each for tier, each in tiers.items() if each},
        "guessed": {tier: _guessed(own, misses) for tier, own in by_guess.items()},
        "by_way": {way: dict(Counter(each.tier for each in asked if each.way == way)) for way in MIX},
        "questions": replayed.num_questions,
        "checked": dict(replayed.num_checked),
        "moved": replayed.num_moved,
        "false_hits": len(replayed.false),
        "guesses": {tier: dict(each) for tier, each in replayed.guesses.items()},
    }


class Rows:
    """One line of JSON for each request, in the order of the fields of `Asked`, compressed.

    What was written can be read while more is, and when nothing more comes.
    """

    def __init__(self, path: Path) -> None:
        self._file = gzip.open(path, "wt", encoding="utf-8")
        self._num_unread = 0

    def add(self, asked: Asked) -> None:
        values = [round(each, 3) if isinstance(each, float) else each for each in astuple(asked)]
        self._file.write(json.dumps(values, separators=(",", ":")) + "\n")
        self._num_unread += 1
        if self._num_unread == _ROWS_AT_ONCE:
            self._file.flush()
            self._num_unread = 0

    def close(self) -> None:
        self._file.close()


def tables(found: Mapping[str, Any]) -> list[Table]:
    """For people: every tier, and of those that guess what became of whole and of partial guesses."""
    tiers = Table("tier", "requests", "share", "p50 ms", "p95 ms", "× faster", "decode ms/token", "× faster")
    for tier, each in found["tiers"].items():
        tiers.add_row(
            tier,
            f"{each['requests']}",
            f"{each['share']:.2%}",
            f"{each['p50_ms']:.2f}",
            f"{each['p95_ms']:.2f}",
            f"{each.get('times_faster_p50', 0.0):.1f}",
            f"{each.get('decode_ms_per_token', 0.0):.2f}",
            f"{each.get('decode_times_faster', 0.0):.2f}",
        )
    guessed = Table("guess", "right", "requests", "decode ms/token", "× faster", "p50 ms", "× faster")
    for tier, kinds in found["guessed"].items():
        for kind, each in kinds.items():
            guessed.add_row(
                tier,
                kind,
                f"{each['requests']}",
                f"{each.get('decode_ms_per_token', 0.0):.2f}",
                f"{each.get('decode_times_faster', 0.0):.2f}",
                f"{each['p50_ms']:.2f}",
                f"{each.get('times_faster_p50', 0.0):.1f}",
            )
    return [tiers, guessed]


def _tier(own: Sequence[Asked], num_asked: int, misses: Sequence[Asked]) -> dict[str, float]:
    """Empty for a tier that answered nothing."""
    if not own:
        return {}
    wall = np.array([each.wall_ms for each in own])
    found = {
        "requests": len(own),
        "share": len(own) / num_asked,
        "p50_ms": float(np.percentile(wall, 50)),
        "p95_ms": float(np.percentile(wall, 95)),
        "p99_ms": float(np.percentile(wall, 99)),
        "mean_ms": float(wall.mean()),
        "thread_p50_ms": float(np.percentile([each.thread_ms for each in own], 50)),
    }
    if misses:
        miss_ms = float(np.percentile([each.wall_ms for each in misses], 50))
        found["times_faster_p50"] = miss_ms / found["p50_ms"]
    own_decode, miss_decode = _decode_ms(own), _decode_ms(misses)
    if own_decode is not None and miss_decode is not None:
        found["decode_ms_per_token"] = own_decode
        if own_decode > 0:
            found["decode_times_faster"] = miss_decode / own_decode
    return found


def _guessed(own: Sequence[Asked], misses: Sequence[Asked]) -> dict[str, dict[str, float]]:
    """Where the model agreed with all of the guess, which is the tier's hit, and where with its beginning only."""
    kinds = {
        "whole": [each for each in own if each.tier == each.guessed_by],
        "in part": [each for each in own if each.tier != each.guessed_by],
    }
    return {kind: _tier(each, len(own), misses) for kind, each in kinds.items() if each}


def _decode_ms(asked: Sequence[Asked]) -> float | None:
    """Per token behind the first, over all requests with some: 0 where all came with the pass over the prompt.

    Of the time from the first step that brought a token to the end. None without any; known answers have none.
    """
    each = [one for one in asked if one.num_tokens > 1 and one.tier in ("miss", *GUESSING)]
    if not each:
        return None
    return sum(one.decode_ms for one in each) / sum(one.num_tokens - 1 for one in each)


def draw(replayed: Replayed, path: Path) -> None:
    """Writes a PNG: how fast each tier answers, and who answered as the caches filled. Raises ImportError."""
    import matplotlib  # optional dependency

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (latency, shares) = pyplot.subplots(1, 2, figsize=(12, 4.2), layout="constrained")
    asked = replayed.asked
    window = max(1, len(asked) // 50)
    for tier in TIERS:
        times = np.sort([each.wall_ms for each in asked if each.tier == tier])
        if not len(times):
            continue
        latency.step(times, np.arange(1, len(times) + 1) / len(times), where="post", label=tier)
        is_it = np.array([each.tier == tier for each in asked], float)
        shares.plot(np.convolve(is_it, np.ones(window) / window, "valid"), label=tier)
    latency.set(
        xscale="log", ylim=(0, 1), xlabel="ms from request to whole answer", ylabel="share of the tier"
    )
    latency.grid(alpha=0.3)
    latency.legend(loc="lower right")
    shares.set(xlabel="request", ylabel=f"share of {window} requests", ylim=(0, 1))
    shares.legend(loc="upper right")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
