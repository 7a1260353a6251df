"""The whole KV benchmark, its tables and its record."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from halfline.bench.allocation import Blocks, Doubling, Request, Waste, replay
from halfline.bench.kv_accounts import NUM_TOKENS, HitPath, measure_hit_path
from halfline.bench.kv_engine import Crowd, Reuse, measure_crowd, measure_reuse
from halfline.bench.kv_slabs import CLASSES, Slabs
from halfline.bench.kv_steps import Turns, WaitingSteps, measure_formats, measure_shared, measure_waiting
from halfline.bench.kv_tiers import Tiers, measure_tiers
from halfline.bench.ratios import spread_of
from halfline.bench.trace_requests import trace_requests
from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.model.executor import BLOCK_TOKENS, Executor
from halfline.model.kv_format import INT8
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.pipeline.options import PipelineOptions
from halfline.text.tokenizer import Tokenizer

_REPLAYED, _SLOTS, _ANSWER_TOKENS = 400, 16, 64
_CROWD = 256
_REUSE_LENGTHS = (128, 512, 1536)
_TIER_BLOCKS = 64
_PLACES = (512, 2048, 4096)
_SHARERS, _SHARED_PLACES = 8, 768
_WAITING_TOKENS = 800
_TURNS = 4  # of each pair in a round


@dataclass(frozen=True, slots=True, kw_only=True)
class KvResult:
    """Everything measured. `load`: the machine's load average before and after, over one minute."""

    load: tuple[float, float]
    hit_path: HitPath
    reuse: list[Reuse]
    waste: dict[str, Waste]
    tiers: Tiers
    crowds: dict[str, Crowd]
    formats: dict[int, Turns]
    shared: Turns
    waiting: WaitingSteps


def run_kv(model: Path, trace: Path, num_threads: int, rounds: int) -> KvResult:
    """`trace` is a recorded session, for waste. Raises OSError or ValueError when it is none."""
    load = os.getloadavg()[0]
    with closing(open_checkpoint(model)) as checkpoint:
        tokenizer = Tokenizer(checkpoint.vocab)
        waste = measure_waste(
            trace_requests(
                trace,
                _REPLAYED,
                lambda text: len(tokenizer.encode(text)),
                max_prompt=PipelineOptions().prefix_tokens,
                max_answer=_ANSWER_TOKENS,
            )
        )
        executor = NativeExecutor(checkpoint, num_blocks=512, num_threads=num_threads)
        places = min(max(_PLACES), executor.spec.max_context - BLOCK_TOKENS)
        rounded = NativeExecutor(
            checkpoint,
            num_blocks=INT8.num_blocks(places + BLOCK_TOKENS),
            num_threads=num_threads,
            kv_format=INT8,
        )
    vocab = executor.spec.vocab_size
    stub = HashExecutor(1024)
    formats = measure_formats(
        executor, rounded, [each for each in _PLACES if each <= places], _TURNS * rounds
    )
    shared = measure_shared(executor, _SHARERS, _SHARED_PLACES, _TURNS * rounds)
    waiting = measure_waiting(executor, _WAITING_TOKENS)
    tiers = measure_tiers(executor, _TIER_BLOCKS)
    with _engine(executor) as engine:
        reuse = measure_reuse(engine, vocab, _REUSE_LENGTHS, rounds)
    # Long steps: all are admitted before the first ends, so that each holds its block beside the shared ones.
    with _engine(executor, step_ms=1e6) as engine:
        real = measure_crowd(engine, vocab, _CROWD, shared_tokens=96, own_tokens=4, new_tokens=12)
    with _engine(stub) as engine:
        many = measure_crowd(
            engine, stub.spec.vocab_size, _CROWD, shared_tokens=96, own_tokens=32, new_tokens=32
        )
    return KvResult(
        load=(load, os.getloadavg()[0]),
        hit_path=measure_hit_path(100 * rounds),
        reuse=reuse,
        waste=waste,
        tiers=tiers,
        crowds={"real model": real, "accounts alone": many},
        formats=formats,
        shared=shared,
        waiting=waiting,
    )


def measure_waste(requests: Sequence[Request]) -> dict[str, Waste]:
    """The same requests for every way of giving them room. None longer than the largest slab."""
    return {
        f"blocks of {BLOCK_TOKENS}": replay(requests, Blocks(), _SLOTS),
        f"slabs of {'/'.join(map(str, CLASSES))}": replay(requests, Slabs(), _SLOTS),
        "doubling pieces": replay(requests, Doubling(), _SLOTS),
    }


def summary(result: KvResult) -> dict[str, object]:
    """The last line of the benchmark."""
    hits = zip(result.hit_path.first, result.hit_path.adopt, strict=True)
    return {
        "load": result.load,
        "hit_path_ms": asdict(spread_of([found + held for found, held in hits])),
        "reuse_gain": {each.num_tokens: _gain(each) for each in result.reuse},
        "waste_inside": {name: waste.inside for name, waste in result.waste.items()},
        "disk_read_bytes_per_s": result.tiers.disk_read,
        "packed_share": result.tiers.packed_share,
        "int8_to_f16_decode": {
            place: asdict(spread_of(turns.ratios)) for place, turns in result.formats.items()
        },
        "shared_to_apart_decode": asdict(spread_of(result.shared.ratios)),
        "step_ms_while_somebody_waits": asdict(_Percentiles.of(result.waiting.ms)),
        "crowd_finished": {name: crowd.num_finished for name, crowd in result.crowds.items()},
    }


def record(result: KvResult, machine: dict[str, object]) -> dict[str, object]:
    """Everything, for bench/results/."""
    return {
        "measured": "KV memory: cost of a hit, gain of reuse, waste, tiers, many sequences",
        **machine,
    } | asdict(result)


def tables(result: KvResult) -> Iterator[Table]:
    yield _hit_table(result.hit_path)
    yield _reuse_table(result.reuse)
    yield _waste_table(result.waste)
    yield _tier_table(result.tiers)
    yield _crowd_table(result.crowds)
    yield _turns_table(result)
    yield _waiting_table(result.waiting)


@dataclass(frozen=True, slots=True)
class _Percentiles:
    p50: float
    p95: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "_Percentiles":
        """Of at least one value."""
        ordered = sorted(values)
        return cls(ordered[len(ordered) // 2], ordered[len(ordered) * 95 // 100], ordered[-1])


def _hit_table(path: HitPath) -> Table:
    table = Table(
        "processor ms", "p50", "p95", "least", title=f"accounts of a prompt of {NUM_TOKENS} tokens, no model"
    )
    for name, times in (
        ("found, tokens encoded", path.first),
        ("found again", path.again),
        ("adopted", path.adopt),
        ("given back", path.release),
        ("published", path.publish),
    ):
        ordered = sorted(times)
        cells = (ordered[len(ordered) // 2], ordered[len(ordered) * 95 // 100], ordered[0])
        table.add_row(name, *(f"{cell:.3f}" for cell in cells))
    return table


def _reuse_table(reuse: list[Reuse]) -> Table:
    table = Table(
        "prompt tokens",
        "cold ms",
        "typed ms",
        "known ms",
        "cold ÷ typed",
        title="time to the first token, medians",
    )
    for each in reuse:
        medians = [spread_of(times).median for times in (each.cold, each.typed, each.known)]
        table.add_row(str(each.num_tokens), *(f"{median:.1f}" for median in medians), f"{_gain(each):.1f}")
    return table


def _waste_table(waste: dict[str, Waste]) -> Table:
    table = Table(
        "",
        "empty inside",
        "unused between",
        "places needed",
        "places copied",
        title=f"{_REPLAYED} keystrokes of a recorded session, {_SLOTS} at a time",
    )
    for name, each in waste.items():
        table.add_row(
            name, f"{each.inside:.1%}", f"{each.between:.1%}", f"{each.peak_span:,}", f"{each.copied:,}"
        )
    return table


def _tier_table(tiers: Tiers) -> Table:
    table = Table("", "MB/s", "ms per block", title=f"blocks of {tiers.block_bytes:,} bytes on the move")
    for name, rate in (
        ("copy within the arena", tiers.copy),
        ("arena → memory", tiers.export),
        ("memory → arena", tiers.import_),
        ("memory → files", tiers.disk_write),
        ("files → memory, checked", tiers.disk_read),
        (f"pack to {tiers.packed_share:.0%}", tiers.pack),
        ("unpack", tiers.unpack),
    ):
        table.add_row(name, f"{rate / 1e6:,.0f}", f"{tiers.block_bytes / rate * 1e3:.2f}")
    return table


def _crowd_table(crowds: dict[str, Crowd]) -> Table:
    table = Table(
        "",
        "sequences",
        "finished",
        "blocks held at most",
        "of",
        "preempted",
        "s",
        "grown MiB",
        title="all at once",
    )
    for name, crowd in crowds.items():
        table.add_row(
            name,
            str(crowd.num_sequences),
            str(crowd.num_finished),
            str(crowd.peak_held_blocks),
            str(crowd.num_blocks),
            str(crowd.num_preemptions),
            f"{crowd.seconds:.1f}",
            f"{crowd.grown_bytes / 2**20:.0f}",
        )
    return table


def _turns_table(result: KvResult) -> Table:
    table = Table(
        "decode step",
        "one ms",
        "other ms",
        "other ÷ one",
        "least to most",
        title="KV read two ways, in turns",
    )
    pairs = {f"f16, int8 · behind {place}": turns for place, turns in result.formats.items()}
    pairs[f"apart, shared · {_SHARERS} behind {_SHARED_PLACES}"] = result.shared
    for name, turns in pairs.items():
        ratios = spread_of(turns.ratios)
        medians = [spread_of(times).median for times in (turns.one, turns.other)]
        table.add_row(
            name,
            *(f"{median:.2f}" for median in medians),
            f"{ratios.median:.2f}",
            f"{ratios.low:.2f} to {ratios.high:.2f}",
        )
    return table


def _waiting_table(waiting: WaitingSteps) -> Table:
    table = Table(
        "steps",
        "rows, mean",
        "p50 ms",
        "p95 ms",
        "most ms",
        title="a step while somebody waits: 30 ms at most",
    )
    found = _Percentiles.of(waiting.ms)
    table.add_row(
        str(len(waiting.ms)),
        f"{sum(waiting.num_rows) / len(waiting.num_rows):.0f}",
        *(f"{each:.1f}" for each in (found.p50, found.p95, found.most)),
    )
    return table


def _gain(reuse: Reuse) -> float:
    """Cold over typed, each pair measured side by side."""
    return spread_of([cold / typed for cold, typed in zip(reuse.cold, reuse.typed, strict=True)]).median


@contextmanager
def _engine(executor: Executor, step_ms: float = 30.0) -> Iterator[EngineHandle]:
    engine = EngineHandle(executor, EngineOptions(speculation="off", step_ms=step_ms))
    engine.start()
    try:
        yield engine
    finally:
        engine.close(0.0)
