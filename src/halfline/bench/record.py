"""One benchmark as plain JSON data: what was measured, and the few numbers that a script would look for."""

from collections.abc import Mapping
from dataclasses import asdict

from halfline.bench.engine_run import EngineResult
from halfline.bench.ratios import Comparison, Spread, against_best, rates_of, spread_of
from halfline.bench.workloads import WORKLOADS, Workload


def at_most(result: EngineResult, workload: Workload) -> list[float]:
    """Tokens per second that each round's limits would allow."""
    step, tokens = result.steps[workload], result.tokens_per_step[workload]
    return [tokens / step.least_seconds(limits) for limits in result.limits]


def shares(result: EngineResult, workload: Workload) -> Spread:
    """Ours over what the limits of the same round would allow."""
    ours = rates_of(result.rounds, result.ours, workload)
    return spread_of([rate / most for rate, most in zip(ours, at_most(result, workload), strict=True)])


def summary(result: EngineResult) -> dict[str, object]:
    """The last line of the benchmark."""
    return {
        "ours": result.ours,
        "load": [round.load_before for round in result.rounds] + [result.rounds[-1].load_after],
        "workloads": {workload: _workload(result, workload) for workload in WORKLOADS},
        "rss_bytes": result.resident.rss_bytes,
        "rss_bound_bytes": result.resident.bound_bytes,
    }


def full_record(result: EngineResult, machine: Mapping[str, object]) -> dict[str, object]:
    """Everything, for bench/results/."""
    return {
        "measured": "raw engine rates in tokens per second, contestants interleaved",
        **machine,
        "peer_versions": result.peer_versions,
        "absent": result.absent,
        "sizes": asdict(result.sizes),
        "summary": summary(result),
        "rounds": [asdict(round) for round in result.rounds],
        "limits": [asdict(limits) for limits in result.limits],
        "work_per_step": {workload: asdict(work) for workload, work in result.steps.items()},
        "parts": {
            name: [{**asdict(part), "share": part.share(result.limits[-1])} for part in parts]
            for name, parts in result.parts.items()
        },
        "resident": {**asdict(result.resident), "bound_bytes": result.resident.bound_bytes},
        "waste": {name: asdict(waste) for name, waste in result.waste.items()},
        "first_token_seconds": asdict(result.first_token),
    }


def _workload(result: EngineResult, workload: Workload) -> dict[str, object]:
    comparison: Comparison | None = against_best(result.rounds, result.ours, workload)
    return {
        "tokens_per_s": _plain(spread_of(rates_of(result.rounds, result.ours, workload))),
        "best_peer": None if comparison is None else comparison.peer,
        "ratio": None if comparison is None else _plain(comparison.spread),
        "at_most": _plain(spread_of(at_most(result, workload))),
        "share_of_limit": _plain(shares(result, workload)),
    }


def _plain(spread: Spread) -> dict[str, float]:
    """To four decimals: more is noise."""
    return {name: round(value, 4) for name, value in asdict(spread).items()}
