"""What the replay of the caches found, by tier: shares, latencies beside a miss of the same run, false hits."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from halfline.bench.cache_replay import Asked, Replayed
from halfline.bench.cache_requests import MIX, SKEW

TIERS = ("miss", "exact", "typed", "http", "syntax", "semantic")


def summary(replayed: Replayed) -> dict[str, object]:
    """Plain data; milliseconds."""
    asked = replayed.asked
    misses = [each for each in asked if each.tier == "miss"]
    tiers = {tier: _tier([each for each in asked if each.tier == tier], asked, misses) for tier in TIERS}
    return {
        "requests": len(asked),
        "mix": dict(MIX),
        "zipf_exponent": SKEW,
        "sources": dict(Counter(each.source for each in asked)),
        "tiers": {tier: each for tier, each in tiers.items() if each},
        "by_way": {way: dict(Counter(each.tier for each in asked if each.way == way)) for way in MIX},
        "checked": dict(replayed.num_checked),
        "moved": replayed.num_moved,
        "false_hits": len(replayed.false),
        "guesses": {tier: dict(each) for tier, each in replayed.guesses.items()},
    }


def record(replayed: Replayed) -> dict[str, object]:
    """Everything, for bench/results/."""
    return {
        "summary": summary(replayed),
        "false": list(replayed.false),
        "asked": [list(asdict(each).values()) for each in replayed.asked],
        "asked_columns": list(Asked.__dataclass_fields__),
    }


def _tier(own: Sequence[Asked], asked: Sequence[Asked], misses: Sequence[Asked]) -> dict[str, float]:
    """Empty for a tier that answered nothing."""
    if not own:
        return {}
    wall = np.array([each.wall_ms for each in own])
    found = {
        "requests": float(len(own)),
        "share": len(own) / len(asked),
        "p50_ms": float(np.percentile(wall, 50)),
        "p95_ms": float(np.percentile(wall, 95)),
        "mean_ms": float(wall.mean()),
    }
    if misses:
        miss_ms = float(np.percentile([each.wall_ms for each in misses], 50))
        found["times_faster_p50"] = miss_ms / found["p50_ms"]
    own_decode, miss_decode = _decode_ms(own), _decode_ms(misses)
    if own_decode and miss_decode:
        found["decode_ms_per_token"] = own_decode
        found["decode_times_faster"] = miss_decode / own_decode
    return found


def _decode_ms(asked: Sequence[Asked]) -> float:
    """Per token behind the first, the median over requests with some; 0 without any."""
    each = [one.decode_ms / (one.num_tokens - 1) for one in asked if one.num_tokens > 1 and one.decode_ms > 0]
    return float(np.median(each)) if each else 0.0


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
