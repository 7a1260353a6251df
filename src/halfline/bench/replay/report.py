"""A replay as tables for people and as plain JSON data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from rich.table import Table

from halfline.bench.replay.run import Replayed
from halfline.bench.replay.statistics import (
    Difference,
    Percentiles,
    Ratio,
    Summary,
    differences,
    places_of,
    ratios,
    summarize,
)


def groups(replayed: Replayed) -> dict[str, list[int]]:
    """Keystrokes by what the usual window holds of their file; only groups that have some."""
    found = {
        "files longer than 256 lines": places_of(replayed, lambda asked: asked.is_long),
        "shorter files": places_of(replayed, lambda asked: not asked.is_long),
    }
    return {name: places for name, places in found.items() if places}


def tables(replayed: Replayed) -> Iterator[Table]:
    for name, places in groups(replayed).items():
        summaries = [summarize(replayed, outcome, places) for outcome in replayed.outcomes]
        yield latency_table(
            f"{name}: {len(places)} keystrokes, {_pace(replayed)}", replayed, places, summaries
        )
        yield tokens_table(name, summaries)
        yield quality_table(name, replayed, places, summaries)
    yield cost_table(replayed)


def latency_table(
    title: str, replayed: Replayed, places: Sequence[int], summaries: Sequence[Summary]
) -> Table:
    table = Table(
        "ms, p50 / p95 / p99",
        "answer",
        "first text",
        "× p50",
        "× p95",
        "× p99",
        "≤ 10 ms",
        "given up",
        "worst / best typist",
        title=title,
    )
    ours = replayed.outcomes[0]
    for summary, outcome in zip(summaries, replayed.outcomes, strict=True):
        times = {} if outcome is ours else ratios(replayed, ours, outcome, places)
        table.add_row(
            summary.name,
            _three(summary.total, ".1f"),
            "" if summary.first is None else _three(summary.first, ".1f"),
            *(_ratio(times.get(name)) for name in ("p50", "p95", "p99")),
            f"{summary.at_once:.0%}",
            f"{summary.unanswered:.1%}",
            "" if summary.unfairness is None else f"{summary.unfairness:.1f}",
        )
    return table


def tokens_table(title: str, summaries: Sequence[Summary]) -> Table:
    table = Table(
        "tokens, p50 / p95 / p99",
        "prompt tokens computed",
        "nobody could know",
        "more than that",
        "generated, mean",
        "answers from",
        title=title,
    )
    for summary in summaries:
        tokens = summary.tokens
        table.add_row(
            summary.name,
            *(
                ("", "", "")
                if tokens is None
                else (
                    _three(tokens.computed, ".0f"),
                    _three(tokens.unknown, ".0f"),
                    _three(tokens.excess, ".0f"),
                )
            ),
            f"{summary.generated:.1f}",
            ", ".join(f"{tier} {share:.0%}" for tier, share in summary.tiers.items()),
        )
    return table


def quality_table(
    title: str, replayed: Replayed, places: Sequence[int], summaries: Sequence[Summary]
) -> Table:
    table = Table(
        "worth",
        "judged",
        "exact line",
        "common prefix",
        "kept",
        "kept of shown",
        "ours more exact",
        "longer prefix",
        "more kept",
        title=title,
    )
    ours = replayed.outcomes[0]
    for summary, outcome in zip(summaries, replayed.outcomes, strict=True):
        quality = summary.quality
        if quality is not None:
            more = {} if outcome is ours else differences(replayed, ours, outcome, places)
            table.add_row(
                summary.name,
                str(quality.num_judged),
                f"{quality.exact:.1%}",
                f"{quality.common_prefix:.2f}",
                f"{quality.kept:.2f}",
                f"{quality.kept_share:.1%}",
                _difference(more.get("exact"), "+.1%"),
                _difference(more.get("common_prefix"), "+.2f"),
                _difference(more.get("kept"), "+.2f"),
            )
    return table


def cost_table(replayed: Replayed) -> Table:
    table = Table("per keystroke", "CPU ms", "tokens run", "of answers shown", title="what it cost")
    for name, cost in costs(replayed).items():
        table.add_row(name, *("" if value is None else f"{value:.1f}" for value in cost.values()))
    return table


def costs(replayed: Replayed) -> dict[str, dict[str, float | None]]:
    """By side, each divided by the number of keystrokes; None where the server or the system does not tell."""
    number = len(replayed.asked)
    found: dict[str, dict[str, float | None]] = {}
    for outcome in replayed.outcomes:
        shown = [answer for answer in outcome.answers if answer.ms is not None]
        prompts = sum(each.computed for each in outcome.counted if each is not None)
        used = prompts + sum(answer.generated_tokens or 0 for answer in shown)
        found[outcome.name] = {
            "cpu_ms": None if outcome.cpu_s is None else outcome.cpu_s * 1e3 / number,
            "tokens_run": None if outcome.total_tokens is None else outcome.total_tokens / number,
            "tokens_shown": used / number,
        }
    return found


def summary_record(replayed: Replayed) -> dict[str, object]:
    """The few numbers that a script would look for."""
    ours = replayed.outcomes[0]
    return {
        "pause_ms": None if replayed.pace.pause_s is None else replayed.pace.pause_s * 1e3,
        "typists": replayed.num_typists,
        "groups": {
            name: {
                outcome.name: {
                    **asdict(summarize(replayed, outcome, places)),
                    "ratios": {}
                    if outcome is ours
                    else {key: asdict(each) for key, each in ratios(replayed, ours, outcome, places).items()},
                    "differences": {}
                    if outcome is ours
                    else {
                        key: asdict(each)
                        for key, each in differences(replayed, ours, outcome, places).items()
                    },
                }
                for outcome in replayed.outcomes
            }
            for name, places in groups(replayed).items()
        },
        "costs": costs(replayed),
    }


def full_record(replayed: Replayed, machine: Mapping[str, object]) -> dict[str, object]:
    """Everything, for bench/results/: one row per keystroke and side. Times to a hundredth of a millisecond."""
    rows = {
        outcome.name: [
            [
                None if answer.ms is None else round(answer.ms, 2),
                None if answer.first_ms is None else round(answer.first_ms, 2),
                answer.prompt_tokens,
                answer.reused_tokens,
                None if counted is None else counted.computed,
                None if counted is None else counted.unknown,
                answer.generated_tokens,
                answer.tier,
                answer.text,
            ]
            for answer, counted in zip(outcome.answers, outcome.counted, strict=True)
        ]
        for outcome in replayed.outcomes
    }
    return {
        "measured": "replayed keystrokes, servers interleaved block by block",
        **machine,
        "summary": summary_record(replayed),
        "columns": ["ms", "first_ms", "prompt", "reused", "computed", "unknown", "generated", "tier", "text"],
        "asked_columns": ["path", "transaction", "block", "is_long", "typed"],
        "asked": [
            [asked.path, asked.transaction, asked.block, asked.is_long, asked.typed.partition("\n")[0][:200]]
            for asked in replayed.asked
        ],
        "answers": rows,
    }


def _pace(replayed: Replayed) -> str:
    typists = "" if replayed.num_typists == 1 else f", {replayed.num_typists} typists"
    if replayed.pace.pause_s is None:
        return f"squeezed{typists}"
    return f"one every {replayed.pace.pause_s * 1e3:.0f} ms{typists}"


def _three(values: Percentiles, form: str) -> str:
    return f"{values.p50:{form}} / {values.p95:{form}} / {values.p99:{form}}"


def _ratio(ratio: Ratio | None) -> str:
    return "" if ratio is None else f"{ratio.value:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"


def _difference(difference: Difference | None, form: str) -> str:
    if difference is None:
        return ""
    return f"{difference.value:{form}} ({difference.low:{form}} to {difference.high:{form}})"
