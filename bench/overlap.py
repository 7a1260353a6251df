"""The next request's context is prepared while this one's KV is fetched and run: what it saves, and what happens when.

    python -m bench.overlap MODEL.gguf TRACE.json.gz [--requests N] [--rounds N] [--write FILE.json] [--plot FILE.png]

Requests are cursors in the recorded document, with 768 tokens from farther above as the context before a window of 256.
A request is three stages: its context is shortened (comments, duplicates, pruning; Python, one thread); half of its KV
is fetched, as blocks imported into the arena; the rest is run (one thread of the engine). In one round all stages
follow each other; in the other preparing has the double buffer (pipeline/double_buffer.py) before the engine, as in the
server. Rounds take turns. What it can save at most is the time of preparing, all but the first request's. The last line
is JSON.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from bench.compression_items import Item, trace_items
from halfline.bench.steps import blocks_for
from halfline.context.compression.choice import build_chain
from halfline.context.compression.passes import Budget, LineTokens, lined
from halfline.model.executor import BLOCK_TOKENS, CAUSAL, Batch
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.pipeline.double_buffer import DoubleBuffer
from halfline.text.tokenizer import Tokenizer

Stage = Literal["prepare", "fetch", "run"]


@dataclass(frozen=True, slots=True)
class Span:
    request: int
    stage: Stage
    began: float
    ended: float


class Work:
    """The three stages, each noted with its times."""

    def __init__(self, executor: NativeExecutor, tokenizer: Tokenizer, vocab_size: int) -> None:
        self._executor = executor
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self.spans: list[Span] = []

    def prepare(self, number: int, item: Item) -> list[int]:
        began = time.perf_counter()
        # Fresh, as for a document that was not seen before.
        tokens = LineTokens(lambda text: self._tokenizer.encode(text, continues=True))
        chain = build_chain(("comments", "duplicates", "prune"), tokens, self._vocab_size)
        given = [lined(part) for part in item.parts]
        left = chain.shrink(given, Budget(int(0.69 * tokens.count(given)), item.before)).parts
        token_ids = self._tokenizer.encode("".join(part.text for part in left) + item.before)
        self._note(number, "prepare", began)
        return token_ids

    def read_before(self, token_ids: Sequence[int]) -> np.ndarray:
        """The KV of its first half, as it would lie in a tier."""
        half = self._half(token_ids)
        self._run(token_ids[:half], 0)
        return self._executor.export_blocks(range(half // BLOCK_TOKENS))

    def complete(self, number: int, token_ids: Sequence[int], kv: np.ndarray) -> None:
        began = time.perf_counter()
        half = self._half(token_ids)
        self._executor.import_blocks(range(half // BLOCK_TOKENS), kv)
        self._note(number, "fetch", began)
        began = time.perf_counter()
        self._run(token_ids[half:], half)
        self._note(number, "run", began)

    def _half(self, token_ids: Sequence[int]) -> int:
        return len(token_ids) // 2 // BLOCK_TOKENS * BLOCK_TOKENS

    def _run(self, token_ids: Sequence[int], first: int) -> None:
        count = len(token_ids)
        outputs = self._executor.run(
            Batch(
                token_ids=np.array(token_ids, np.int32),
                row_starts=np.array([0, count], np.int32),
                first_places=np.array([first], np.int32),
                block_tables=np.arange(blocks_for(first + count), dtype=np.int32)[None, :],
                masks=(CAUSAL,),
                logit_rows=np.array([count - 1], np.int32),
                hidden_rows=np.array([], np.int32),
            )
        )
        assert outputs is not None, "nobody sets the stop flag of this executor"

    def _note(self, number: int, stage: Stage, began: float) -> None:
        self.spans.append(Span(number, stage, began, time.perf_counter()))


async def in_turn(work: Work, items: Sequence[Item], stored: Sequence[np.ndarray]) -> None:
    for number, (item, kv) in enumerate(zip(items, stored, strict=True)):
        token_ids = await asyncio.to_thread(work.prepare, number, item)
        await asyncio.to_thread(work.complete, number, token_ids, kv)


async def overlapped(work: Work, items: Sequence[Item], stored: Sequence[np.ndarray]) -> None:
    buffer, engine = DoubleBuffer(), asyncio.Lock()

    async def one(number: int) -> None:
        async with buffer.prepared(lambda: work.prepare(number, items[number])) as token_ids, engine:
            await asyncio.to_thread(work.complete, number, token_ids, stored[number])

    await asyncio.gather(*(one(number) for number in range(len(items))))


def plot(rounds: Sequence[tuple[str, Sequence[Span]]], file: Path) -> None:
    import matplotlib  # an extra

    matplotlib.use("Agg")
    from matplotlib import pyplot

    colours = {"prepare": "#4477aa", "fetch": "#ccbb44", "run": "#ee6677"}
    figure, axes = pyplot.subplots(len(rounds), 1, figsize=(10, 4.5), sharex=True)
    for each, (name, spans) in zip(axes, rounds, strict=True):
        start = min(span.began for span in spans)
        for span in spans:
            lane = 1 if span.stage == "prepare" else 0
            left, width = span.began - start, span.ended - span.began
            each.barh(lane, width, left=left, color=colours[span.stage], edgecolor="black", linewidth=0.4)
            if span.stage != "fetch":
                each.text(left + width / 2, lane, str(span.request), ha="center", va="center", fontsize=7)
        each.set_yticks([0, 1], ["engine", "context"])
        each.set_title(name, loc="left")
    axes[-1].set_xlabel("seconds")
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colour) for colour in colours.values()]
    figure.legend(handles, list(colours), loc="upper right", ncols=3)
    figure.tight_layout()
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5, help="of each kind")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    with closing(open_checkpoint(options.model)) as checkpoint:
        tokenizer, vocab_size = Tokenizer(checkpoint.vocab), checkpoint.spec.vocab_size
        executor = NativeExecutor(checkpoint, num_blocks=blocks_for(2048), num_threads=1)
    tokens = LineTokens(lambda text: tokenizer.encode(text, continues=True))
    items = list(islice(trace_items(options.trace, tokens), options.requests))
    random.Random(0).shuffle(items)
    work = Work(executor, tokenizer, vocab_size)
    stored = [work.read_before(work.prepare(number, item)) for number, item in enumerate(items)]
    ways: dict[str, Callable[[Work, Sequence[Item], Sequence[np.ndarray]], object]] = {
        "one after the other": in_turn,
        "overlapped": overlapped,
    }
    walls: dict[str, list[float]] = {name: [] for name in ways}
    latest: dict[str, list[Span]] = {}
    for _ in range(options.rounds):
        for name, way in ways.items():
            work.spans = []
            began = time.perf_counter()
            asyncio.run(way(work, items, stored))  # type: ignore[arg-type]  # both are coroutines
            walls[name].append(time.perf_counter() - began)
            latest[name] = work.spans
    serial = latest["one after the other"]
    stages = {
        stage: sum(span.ended - span.began for span in serial if span.stage == stage)
        for stage in ("prepare", "fetch", "run")
    }
    ratios = [
        after / before
        for before, after in zip(walls["one after the other"], walls["overlapped"], strict=True)
    ]
    result = {
        "requests": len(items),
        "stage_s": stages,
        "least_ratio_possible": 1 - stages["prepare"] * (1 - 1 / len(items)) / sum(stages.values()),
        "ratio_median": statistics.median(ratios),
        "ratios": ratios,
    }
    print(
        f"{len(items)} requests: preparing {stages['prepare']:.2f} s, fetching {stages['fetch']:.3f} s,"
        f" running {stages['run']:.2f} s; overlapped takes {result['ratio_median']:.1%} of the time"
        f" (at best {result['least_ratio_possible']:.1%})"
    )
    if options.plot is not None:
        plot(list(latest.items()), options.plot)
    if options.write is not None:
        options.write.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
