"""How much a longer window before the cursor is worth: the true rest of the line, by window length.

    python -m bench.window_quality MODEL.gguf TRACE.json.gz [--positions N] [--write FILE.json] [--plot FILE.png]

Cursors are drawn inside code lines of the trace's final document and of this Python's standard library, at the start of
a word. For each window (its tokens end at the cursor, it begins at a line) the model reads the rest of the line,
teacher forced: bits per character, and whether greedy decoding would have written it exactly. Every window sees the
same cursors, so differences are paired; the interval of the difference to the longest window is a bootstrap over
cursors. The last line is JSON.
"""

import argparse
import gzip
import json
import math
import random
import re
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from halfline.bench.steps import blocks_for
from halfline.model.executor import CAUSAL, Batch
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.sampling.sampler import score
from halfline.text.tokenizer import Tokenizer

WINDOWS = (64, 128, 256, 512, 1024, 2048)
_CONTEXT_CHARACTERS = 10_000  # before every cursor: more than the longest window
_WORD = re.compile(r"\b\w")


@dataclass(frozen=True, slots=True)
class Cursor:
    source: str
    before: str
    rest: str  # of the line, its end included


def trace_cursors(trace: Path, count: int, rng: random.Random) -> Iterator[Cursor]:
    text = json.loads(gzip.decompress(trace.read_bytes()))["endContent"]
    for _ in range(count):
        yield _cursor("rust", text, rng)


def library_cursors(count: int, rng: random.Random) -> Iterator[Cursor]:
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for path in sorted(root.glob("*.py")) if path.stat().st_size > 2 * _CONTEXT_CHARACTERS]
    for path in rng.sample(files, count):
        yield _cursor("python", path.read_text("utf-8"), rng)


def _cursor(source: str, text: str, rng: random.Random) -> Cursor:
    while True:
        start = text.rfind("\n", 0, rng.randrange(_CONTEXT_CHARACTERS, len(text))) + 1
        line = text[start : text.find("\n", start) + 1]
        words = [found.start() for found in _WORD.finditer(line)]
        if start < _CONTEXT_CHARACTERS or not words or len(line) > 120:
            continue
        place = start + rng.choice(words)
        while text[place - 1] == " " and place > start:
            place -= 1  # the space belongs to the word's first token
        return Cursor(source, text[:place], text[place : start + len(line)])


class Scorer:
    """Reads a window and the rest of a line behind it, from an empty KV."""

    def __init__(self, executor: NativeExecutor, tokenizer: Tokenizer) -> None:
        self._executor = executor
        self._tokenizer = tokenizer

    def score(self, cursor: Cursor, max_tokens: int) -> tuple[float, bool]:
        """Bits of the rest of the line; whether each of its tokens is the likeliest."""
        window = self._window(cursor.before, max_tokens)
        rest = self._tokenizer.encode(cursor.rest, continues=True)
        logits = self._logits(window + rest[:-1], len(rest))
        scored = [score(row, token_id, 1) for row, token_id in zip(logits, rest, strict=True)]
        bits = -sum(each.logprob or 0.0 for each in scored) / math.log(2)
        return bits, all(each.top[0][0] == each.token_id for each in scored)

    def _window(self, before: str, max_tokens: int) -> list[int]:
        """At most so many tokens, from the start of a line on if there is one in the last quarter's reach."""
        text = before[-max_tokens * 8 :]
        while len(token_ids := self._tokenizer.encode(text)) > max_tokens:
            newline = text.find(
                "\n", max(0, len(text) * (len(token_ids) - max_tokens) // (2 * len(token_ids)))
            )
            if newline < 0:
                return token_ids[-max_tokens:]
            text = text[newline + 1 :]
        return token_ids

    def _logits(self, token_ids: list[int], num_rows: int) -> NDArray[np.float32]:
        outputs = self._executor.run(
            Batch(
                token_ids=np.array(token_ids, np.int32),
                row_starts=np.array([0, len(token_ids)], np.int32),
                first_places=np.array([0], np.int32),
                block_tables=np.arange(blocks_for(len(token_ids)), dtype=np.int32)[None, :],
                masks=(CAUSAL,),
                logit_rows=np.arange(len(token_ids) - num_rows, len(token_ids), dtype=np.int32),
                hidden_rows=np.array([], np.int32),
            )
        )
        assert outputs is not None, "nobody sets the stop flag of this executor"
        return outputs.logits


def summary(
    cursors: Sequence[Cursor], bits: Mapping[int, Sequence[float]], exact: Mapping[int, Sequence[bool]]
) -> list[dict[str, float]]:
    """One row per window. `loss`: bits per character above the longest window's, with a 95 % interval."""
    lengths = np.array([len(cursor.rest) for cursor in cursors], np.float64)
    longest = np.array(bits[max(bits)])
    generator = np.random.default_rng(0)
    resamples = generator.integers(0, len(cursors), (2000, len(cursors)))
    rows = []
    for window in sorted(bits):
        own = np.array(bits[window])
        losses = (own - longest)[resamples].sum(1) / lengths[resamples].sum(1)
        rows.append(
            {
                "window": window,
                "bits_per_character": float(own.sum() / lengths.sum()),
                "loss": float((own - longest).sum() / lengths.sum()),
                "loss_low": float(np.quantile(losses, 0.025)),
                "loss_high": float(np.quantile(losses, 0.975)),
                "exact": float(np.mean(exact[window])),
            }
        )
    return rows


def plot(rows_by_source: Mapping[str, Sequence[Mapping[str, float]]], file: Path) -> None:
    import matplotlib  # an extra

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4))
    for source, rows in rows_by_source.items():
        windows = [row["window"] for row in rows]
        left.plot(windows, [row["bits_per_character"] for row in rows], marker="o", label=source)
        right.plot(windows, [100 * row["exact"] for row in rows], marker="o", label=source)
    for axes, label in ((left, "bits per character of the rest of the line"), (right, "written exactly, %")):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("tokens before the cursor")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.tight_layout()
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--positions", type=int, default=60, help="cursors per source")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    rng = random.Random(1)
    cursors = [
        *trace_cursors(options.trace, options.positions, rng),
        *library_cursors(options.positions, rng),
    ]
    rng.shuffle(cursors)
    with closing(open_checkpoint(options.model)) as checkpoint:
        scorer = Scorer(
            NativeExecutor(checkpoint, num_blocks=blocks_for(max(WINDOWS) + 256), num_threads=1),
            Tokenizer(checkpoint.vocab),
        )
    bits: dict[int, list[float]] = {window: [] for window in WINDOWS}
    exact: dict[int, list[bool]] = {window: [] for window in WINDOWS}
    for number, cursor in enumerate(cursors, 1):
        for window in WINDOWS:
            some_bits, is_exact = scorer.score(cursor, window)
            bits[window].append(some_bits)
            exact[window].append(is_exact)
        print(f"{number} of {len(cursors)} cursors", end="\r", flush=True)
    tables = {}
    for source in ("rust", "python"):
        chosen = [place for place, cursor in enumerate(cursors) if cursor.source == source]
        tables[source] = summary(
            [cursors[place] for place in chosen],
            {window: [bits[window][place] for place in chosen] for window in WINDOWS},
            {window: [exact[window][place] for place in chosen] for window in WINDOWS},
        )
        print(f"\n{source}: {len(chosen)} cursors\nwindow  bits/char  above longest (95 %)      exact")
        for row in tables[source]:
            print(
                f"{row['window']:6.0f}  {row['bits_per_character']:9.3f}  {row['loss']:+.3f}"
                f" ({row['loss_low']:+.3f} to {row['loss_high']:+.3f})  {row['exact']:6.1%}"
            )
    if options.plot is not None:
        plot(tables, options.plot)
    if options.write is not None:
        options.write.write_text(json.dumps(tables, indent=1) + "\n")
    print(json.dumps(tables))


if __name__ == "__main__":
    main()
