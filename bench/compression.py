"""What leaving out context costs and saves: tokens, likelihood of the true continuation, answers, time.

    python -m bench.compression MODEL.gguf TRACE.json.gz [SAFIM.jsonl.gz] [--repository FILE.json.gz]
                                [--later FILE.json.gz] [--half HALF] [--cursors N] [--true N] [--keep SHARE]
                                [--arms ARM ...] [--minutes N]
                                [--record FILE.jsonl] [--write FILE.json] [--plot FILE.png]

Every cursor has a window of 256 tokens before it, up to 768 tokens of context in front of that
(bench/compression_items.py), and a true continuation of up to `--true` tokens, as many as the profile low-latency
writes at most, which the model reads teacher forced. Before that it writes the line by itself, greedily.

Each arm (a pass or a chain of passes) shrinks the same contexts, where it can choose to the same budget, `--keep` of
their tokens; "as in_common" gives it as many as `in_common` left of that very context. Reported: tokens removed; the
negative log-likelihood relative to all of the context, with the 95 % interval, drawn by file (of the trace: by
stretches of 200 lines); how many of the lines it wrote are the true ones, and their edit similarity; processor time of
the passes and of reading the prompt. What physics allows: reading costs about a millisecond a token on one quiet core
here, so a pass pays if it costs less than that times what it removes, once for each time that the prompt is read anew,
which is not each keystroke.

With --record a run that was ended is gone on with. After --minutes no further cursor is begun; 0 reports what is on
record. The last line is JSON.
"""

import argparse
import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import numpy as np

from bench.compression_items import CONTEXT_TOKENS, WINDOW_TOKENS, Half, Item, Sources, items
from bench.compression_reading import Measured, Reader
from halfline.bench.steps import blocks_for
from halfline.context.compression.choice import build_chain
from halfline.context.compression.names import PASS_NAMES, PassName
from halfline.context.compression.passes import Budget, LineTokens, lined
from halfline.context.compression.relatedness import InCommon
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.text.tokenizer import Tokenizer

_CONTROLS = ("tail", "uniform", "random")
ARMS: Mapping[str, tuple[PassName, ...] | None] = {
    "nothing": (),
    "no context": None,
    **{name: (name,) for name in PASS_NAMES},
    "comments+duplicates": ("comments", "duplicates"),
    "comments+duplicates+bodies": ("comments", "duplicates", "bodies"),
    "comments+duplicates+prune": ("comments", "duplicates", "prune"),
    "comments+duplicates+tail": ("comments", "duplicates", "tail"),
    "duplicates+related": ("duplicates", "related"),
    "entropy+tail": ("entropy", "tail"),
    "tail as in_common": ("tail",),
    "random as in_common": ("random",),
}


def summary(
    items: Sequence[Item], found: Mapping[str, Sequence[Measured]], baseline: str = "nothing"
) -> list[dict[str, float | str]]:
    """One row per arm; `loss` is relative to the likelihood with the `baseline` arm's context, with its 95 %."""
    whole = np.array([each.nats for each in found[baseline]])
    read = sum(each.read_ms for each in found[baseline])
    clusters = np.unique([item.cluster for item in items], return_inverse=True)[1]
    draws = np.random.default_rng(0).integers(clusters.max() + 1, size=(4000, clusters.max() + 1))
    by_cluster = np.bincount(clusters, whole)
    rows: list[dict[str, float | str]] = []
    for arm, measured in found.items():
        own = np.array([each.nats for each in measured])
        losses = np.bincount(clusters, own - whole)[draws].sum(1) / by_cluster[draws].sum(1)
        context = sum(each.context_tokens for each in measured)
        rows.append(
            {
                "arm": arm,
                "removed": sum(each.removed for each in measured) / context,
                "nats_per_token": float(own.sum() / sum(each.num_true for each in measured)),
                "loss": float(own.sum() / whole.sum() - 1),
                "loss_low": float(np.quantile(losses, 0.025)),
                "loss_high": float(np.quantile(losses, 0.975)),
                "exact": float(np.mean([each.exact for each in measured])),
                "similarity": float(np.mean([each.similarity for each in measured])),
                "shrink_ms": float(np.mean([each.shrink_ms for each in measured])),
                "read_saved": 1 - sum(each.read_ms for each in measured) / read,
                "total_saved": 1 - sum(each.read_ms + each.shrink_ms for each in measured) / read,
            }
        )
    return rows


def table(rows: Sequence[Mapping[str, float | str]]) -> str:
    head = f"{'arm':28} removed  nats/token  loss (95 %)                 exact  alike  passes ms  time saved"
    lines = [
        f"{row['arm']:28} {row['removed']:7.1%}  {row['nats_per_token']:10.4f}  {row['loss']:+7.2%}"
        f" ({row['loss_low']:+7.2%} to {row['loss_high']:+7.2%})  {row['exact']:6.1%}  {row['similarity']:.3f}"
        f"  {row['shrink_ms']:8.1f}   {row['total_saved']:7.1%}"
        for row in rows
    ]
    return "\n".join([head, *lines])


def plot(rows: Sequence[Mapping[str, float | str]], title: str, file: Path) -> None:
    import matplotlib  # an extra

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for row in rows:
        removed, loss, low, high = (
            100 * float(row[key]) for key in ("removed", "loss", "loss_low", "loss_high")
        )
        colour = "#999999" if row["arm"] in _CONTROLS else "#4477aa"
        axes.errorbar(removed, loss, [[loss - low], [high - loss]], fmt="o", color=colour, capsize=3)
        axes.annotate(str(row["arm"]), (removed, loss), xytext=(5, 4), textcoords="offset points", fontsize=8)
    axes.axhline(0.4, color="#ee6677", linewidth=1, linestyle="--")
    axes.axvline(31, color="#ee6677", linewidth=1, linestyle="--")
    axes.set(
        xlabel="context tokens left out, %", ylabel="negative log-likelihood, % more (95 %)", title=title
    )
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("trace", type=Path)
    parser.add_argument("safim", type=Path, nargs="?")
    parser.add_argument("--repository", type=Path, help="bench/data/repository.json.gz")
    parser.add_argument("--later", type=Path, help="bench/data/repository_later.json.gz")
    parser.add_argument("--half", choices=get_args(Half), default="held-out")
    parser.add_argument("--cursors", type=int, default=40, help="of each suite")
    parser.add_argument("--true", type=int, default=128, help="tokens of the true continuation")
    parser.add_argument(
        "--keep", type=float, default=0.69, help="the budget, as a share of the context's tokens"
    )
    parser.add_argument("--arms", nargs="*", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    with closing(open_checkpoint(options.model)) as checkpoint:
        tokenizer, vocab_size = Tokenizer(checkpoint.vocab), checkpoint.spec.vocab_size
        num_blocks = blocks_for(2 * (CONTEXT_TOKENS + WINDOW_TOKENS) + options.true)
        executor = NativeExecutor(checkpoint, num_blocks=num_blocks, num_threads=options.threads)
    tokens = LineTokens(lambda text: tokenizer.encode(text, continues=True))
    sources = Sources(options.trace, options.safim, options.repository, options.later)
    chosen = items(sources, options.half, options.cursors, tokens)
    reader = Reader(executor, tokenizer, options.true)
    known = known_results(options.record)
    arms = ["nothing", *(arm for arm in options.arms if arm != "nothing")]
    found: dict[str, list[Measured]] = {arm: [] for arm in arms}
    began = time.monotonic()
    done: list[Item] = []
    for item in chosen:
        keys = {arm: f"{_digest(item)}:{arm}:{options.keep}:{options.true}" for arm in arms}
        if time.monotonic() - began >= 60 * options.minutes and not known.keys() >= set(keys.values()):
            continue
        reader.next_item()
        for arm, key in keys.items():
            if key not in known:
                names = ARMS[arm]
                passes = None if names is None else build_chain(names, tokens, vocab_size)
                num_tokens = _num_kept(item, arm, tokens, options.keep)
                known[key] = reader.measure(item, passes, tokens, num_tokens)
                if options.record is not None:
                    with options.record.open("a") as file:
                        file.write(json.dumps({"key": key, **asdict(known[key])}) + "\n")
            found[arm].append(known[key])
        done.append(item)
        print(f"{len(done)} of {len(chosen)} cursors", end="\r", flush=True)
    result: dict[str, object] = {"half": options.half, "keep": options.keep, "true_tokens": options.true}
    for suite in ("all", "repository", "later", "library", "trace", "api"):
        numbers = [n for n, item in enumerate(done) if suite in ("all", item.suite)]
        if numbers:
            some = {arm: [measured[n] for n in numbers] for arm, measured in found.items()}
            own = [done[n] for n in numbers]
            rows, num_files = summary(own, some), len({item.cluster for item in own})
            title = f"{suite}: {len(own)} cursors in {num_files} files"
            print(f"\n{title}\n{table(rows)}")
            result[suite] = {"cursors": len(own), "files": num_files, "arms": rows}
            if suite == "all" and options.plot is not None:
                plot([row for row in rows if row["arm"] != "no context"], title, options.plot)
    if options.write is not None:
        options.write.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


def _num_kept(item: Item, arm: str, tokens: LineTokens, share: float) -> int:
    parts = [lined(part) for part in item.parts]
    if not arm.endswith(" as in_common"):
        return int(share * tokens.count(parts))
    budget = Budget(0, item.before, path=item.path)
    return tokens.count(InCommon(tokens).shrink(parts, budget).parts)


def _digest(item: Item) -> str:
    texts = (item.cluster, item.before, item.rest, *(part.text for part in item.parts))
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def known_results(record: Path | None) -> dict[str, Measured]:
    if record is None or not record.exists():
        return {}
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    return {line.pop("key"): Measured(**line) for line in lines}


if __name__ == "__main__":
    main()
