"""The benchmark as tables for people."""

from collections.abc import Iterator

from rich.table import Table

from halfline.bench.engine_run import EngineResult
from halfline.bench.limits import Limits
from halfline.bench.parts import Part
from halfline.bench.ratios import Spread, against_best, names_of, rates_of, spread_of
from halfline.bench.record import at_most, shares
from halfline.bench.workloads import WORKLOADS


def tables(result: EngineResult) -> Iterator[Table]:
    yield rates_table(result)
    yield verdict_table(result)
    yield limits_table(result)
    for title, parts in result.parts.items():
        yield parts_table(title, parts, result.limits[-1])
    yield memory_table(result)


def rates_table(result: EngineResult) -> Table:
    """Everyone's tokens per second."""
    loads = [round.load_before for round in result.rounds] + [result.rounds[-1].load_after]
    title = f"tokens/s, median (min-max) of {len(result.rounds)} rounds; load average {min(loads):.1f}-{max(loads):.1f}"
    table = Table("", *(result.sizes.title(workload) for workload in WORKLOADS), title=title)
    for name in names_of(result.rounds):
        cells = []
        for workload in WORKLOADS:
            rates = rates_of(result.rounds, name, workload)
            cells.append(_spread(spread_of(rates), ".0f") if rates else "")
        table.add_row(name, *cells)
    return table


def verdict_table(result: EngineResult) -> Table:
    """Ours beside the best peer and beside the machine."""
    table = Table(
        "",
        "best peer",
        "× the best peer",
        "the limits allow",
        "share of that",
        title=f"{result.ours}: how good",
    )
    for workload in WORKLOADS:
        comparison = against_best(result.rounds, result.ours, workload)
        table.add_row(
            result.sizes.title(workload),
            "" if comparison is None else comparison.peer,
            "" if comparison is None else _spread(comparison.spread, ".2f"),
            f"{spread_of(at_most(result, workload)).median:.0f}/s",
            _spread(shares(result, workload), ".0%"),
        )
    return table


def limits_table(result: EngineResult) -> Table:
    table = Table("limit of this machine", "median (min-max)", title="measured in the same rounds")
    near = result.limits[0].near_bytes / 1e6

    def row(name: str, unit: str, values: list[float]) -> None:
        table.add_row(name, f"{_spread(spread_of([value / 1e9 for value in values]), '.1f')} {unit}")

    threads = result.limits[0].num_threads
    row(f"read {near:.0f} MB, 1 thread", "GB/s", [limits.read_near_one for limits in result.limits])
    row(f"read {near:.0f} MB, {threads} threads", "GB/s", [limits.read_near for limits in result.limits])
    row(f"read 1 GiB, {threads} threads", "GB/s", [limits.read_far for limits in result.limits])
    row("int8 products", "GOP/s", [limits.int8 for limits in result.limits])
    row("int8 products, scaled per block", "GOP/s", [limits.int8_block for limits in result.limits])
    row("float32 fused multiply-adds", "GFLOP/s", [limits.fma for limits in result.limits])
    return table


def parts_table(title: str, parts: list[Part], limits: Limits) -> Table:
    table = Table("part", "ms", "GB/s", "GOP/s", "share of the limit", title=f"one step of {title}")
    for part in parts:
        if part.seconds is None:
            table.add_row(part.name, "lost in noise", "", "", "")
            continue
        share = part.share(limits)
        table.add_row(
            part.name,
            f"{part.seconds * 1e3:.2f}",
            f"{part.work.num_bytes / part.seconds / 1e9:.1f}",
            f"{(part.work.int_ops + part.work.float_ops) / part.seconds / 1e9:.1f}",
            "" if share is None else f"{share:.0%}",
        )
    return table


def memory_table(result: EngineResult) -> Table:
    resident, first = result.resident, result.first_token
    table = Table("memory", "", title="memory")
    table.add_row(
        "resident after 512 + 64 tokens",
        f"{resident.rss_bytes / 1e6:.0f} MB of at most {resident.bound_bytes / 1e6:.0f}"
        f" = 1.25 × ({resident.weight_bytes / 1e6:.0f} + {resident.kv_bytes / 1e6:.0f}) + 80",
    )
    for name, waste in result.waste.items():
        table.add_row(
            name,
            f"reserves {waste.peak_reserved:,} places for {waste.peak_used:,} tokens at its peak, spans"
            f" {waste.peak_span:,}; {waste.inside:.1%} empty inside, {waste.between:.1%} lost between,"
            f" {waste.copied:,} copied",
        )
    table.add_row("first token of 512, arena touched", f"{first.touched * 1e3:.1f} ms")
    table.add_row("first token of 512, memory fresh", f"{first.fresh * 1e3:.1f} ms")
    table.add_row("allocating and doubling alone", f"{first.growing * 1e3:.1f} ms")
    return table


def _spread(spread: Spread, form: str) -> str:
    return f"{spread.median:{form}} ({spread.low:{form}}-{spread.high:{form}})"
