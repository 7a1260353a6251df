"""What leaving out context costs and saves: tokens, likelihood of the true continuation, time.

    python -m bench.compression MODEL.gguf TRACE.json.gz [SAFIM.jsonl.gz] [--cursors N] [--keep SHARE]
                                [--minutes N] [--record FILE.jsonl] [--write FILE.json]

Every cursor has a window of 256 tokens before it, context in front of that, and a true continuation of up to 32 tokens,
which the model reads teacher forced. Context comes from three places:

    library   this Python's standard library: the pieces of imported modules that have most in common with the window
    trace     the recorded document's own text farther above, as a model with a longer window would see it
    api       SAFIM's API calls: the same of their files

Each arm (a pass or a chain of passes) shrinks the same contexts, where it can choose to the same budget, `--keep` of
their tokens. Reported: tokens removed; the negative log-likelihood relative to all of the context, with the 95 %
interval, drawn by file (of the trace: by stretches of 200 lines); how often greedy decoding would write the rest of the
line; processor time of the passes and of reading the prompt. What physics allows: reading costs about a millisecond a
token on one quiet core here, so a pass pays if it costs less than that times what it removes, once for each time that
the prompt is read anew, which is not each keystroke.

With --record a run that was ended is gone on with. After --minutes no further cursor is begun; 0 reports what is on
record. The last line is JSON.
"""

import argparse
import gzip
import json
import math
import random
import re
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

from bench.window_quality import Cursor, trace_cursors
from halfline.bench.steps import blocks_for
from halfline.context.compression.choice import build_chain
from halfline.context.compression.names import PASS_NAMES, PassName
from halfline.context.compression.passes import Budget, LinedPart, LineTokens, Pass, lined
from halfline.context.compression.words import names
from halfline.model.executor import CAUSAL, Batch
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.request import Part
from halfline.sampling.sampler import score
from halfline.text.tokenizer import Tokenizer

_WINDOW, _CONTEXT, _TRUE = 256, 768, 32  # tokens
_PIECE_LINES = 40
ARMS: Mapping[str, tuple[PassName, ...] | None] = {
    "nothing": (),
    "no context": None,
    **{name: (name,) for name in PASS_NAMES},
    "comments+duplicates": ("comments", "duplicates"),
    "comments+duplicates+bodies": ("comments", "duplicates", "bodies"),
    "comments+duplicates+prune": ("comments", "duplicates", "prune"),
    "comments+duplicates+tail": ("comments", "duplicates", "tail"),
    "entropy+tail": ("entropy", "tail"),
}


@dataclass(frozen=True, slots=True)
class Item:
    suite: str
    cluster: str
    path: str
    parts: tuple[Part, ...]
    before: str
    rest: str


@dataclass(frozen=True, slots=True)
class Measured:
    nats: float
    num_true: int
    exact: bool
    context_tokens: int
    removed: int
    shrink_ms: float
    read_ms: float


def _lines_of(tokenizer: Tokenizer, text: str, num_tokens: int) -> int:
    """Where the last lines begin that have at most so many tokens together."""
    start = len(text)
    while start:
        earlier = text.rfind("\n", 0, start - 1) + 1
        num_tokens -= len(tokenizer.encode(text[earlier:start], continues=True))
        if num_tokens < 0:
            break
        start = earlier
    return start


def _far_item(suite: str, cluster: str, path: str, cursor: Cursor, tokenizer: Tokenizer) -> Item:
    window = _lines_of(tokenizer, cursor.before, _WINDOW)
    far = _lines_of(tokenizer, cursor.before[:window], _CONTEXT)
    part = Part(cursor.before[far:window], path)
    return Item(suite, cluster, path, (part,), cursor.before[window:], cursor.rest)


def trace_items(trace: Path, count: int, tokenizer: Tokenizer) -> Iterator[Item]:
    for cursor in trace_cursors(trace, count, random.Random(2)):
        stretch = cursor.before.count("\n") // 200
        yield _far_item("trace", f"trace:{stretch}", "main.rs", cursor, tokenizer)


def api_items(safim: Path, count: int, tokenizer: Tokenizer) -> Iterator[Item]:
    tasks = [json.loads(line) for line in gzip.decompress(safim.read_bytes()).splitlines()]
    random.Random(3).shuffle(tasks)
    for task in tasks:
        before, _, behind = task["eval_prompt"].partition("{{completion}}")
        if len(before) < 3000 or count == 0:
            continue
        count -= 1
        cursor = Cursor("api", before, task["ground_truth"] + behind[: behind.find("\n") + 1])
        suffix = {"python": "py", "java": "java", "cpp": "cpp", "csharp": "cs"}[task["lang"]]
        yield _far_item("api", f"api:{task['task_id']}", f"main.{suffix}", cursor, tokenizer)


def library_items(count: int, tokenizer: Tokenizer) -> Iterator[Item]:
    root = Path(sysconfig.get_path("stdlib"))
    rng = random.Random(4)
    files = [path for path in sorted(root.glob("*.py")) if path.stat().st_size > 8000]
    rng.shuffle(files)
    for path in files:
        text = path.read_text("utf-8")
        modules = re.findall(r"(?m)^(?:from|import) (\w+)", text)
        imported = [root / f"{name}.py" for name in dict.fromkeys(modules) if (root / f"{name}.py").exists()]
        lines = text.splitlines(True)
        inside = [
            n for n, line in enumerate(lines) if n > 60 and re.match(r"\s+\w.*\(", line) and len(line) < 100
        ]
        if not imported or not inside or count == 0:
            continue
        count -= 1
        number = rng.choice(inside)
        line = lines[number]
        place = sum(map(len, lines[:number])) + len(line) - len(line.lstrip()) + len(line.strip()) // 3
        before = text[:place]
        window = before[_lines_of(tokenizer, before, _WINDOW) :]
        parts = tuple(_most_alike(imported, window, tokenizer))
        yield Item("library", f"library:{path.name}", path.name, parts, window, text[place:][:400])


def _most_alike(files: Sequence[Path], window: str, tokenizer: Tokenizer) -> Iterator[Part]:
    """Pieces by the share of names in common, the most alike last."""
    wanted = set(names(window))
    ranked = []
    for path in files:
        for start, piece in enumerate(_pieces(path)):
            own = set(names(piece))
            ranked.append((len(wanted & own) / max(1, len(wanted | own)), path.name, start, piece))
    room, chosen = _CONTEXT, []
    for _, name, _, piece in sorted(ranked, reverse=True):
        room -= len(tokenizer.encode(piece, continues=True))
        if room < 0:
            break
        chosen.append(Part(piece, name))
    return reversed(chosen)


@cache
def _pieces(path: Path) -> tuple[str, ...]:
    lines = path.read_text("utf-8").splitlines(True)
    return tuple("".join(lines[start : start + _PIECE_LINES]) for start in range(0, len(lines), _PIECE_LINES))


class Reader:
    def __init__(self, executor: NativeExecutor, tokenizer: Tokenizer) -> None:
        self._executor = executor
        self._tokenizer = tokenizer
        self._file_id = tokenizer.token_id("<file_sep>")
        self._latest: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[float, bool, float]] = {}

    def next_item(self) -> None:
        self._latest.clear()

    def measure(self, item: Item, passes: Pass | None, tokens: LineTokens, keep: float) -> Measured:
        """`passes` None: without any context."""
        given = [lined(part) for part in item.parts]
        num_given = tokens.count(given)
        began = time.process_time()
        left = (
            () if passes is None else passes.shrink(given, Budget(int(keep * num_given), item.before)).parts
        )
        shrink_ms = (time.process_time() - began) * 1e3
        prompt = self._prompt(item, left)
        rest = self._tokenizer.encode(item.rest, continues=True)[:_TRUE]
        nats, exact, read_ms = self._read(tuple(prompt), tuple(rest), item.rest.partition("\n")[0])
        removed = num_given - tokens.count(left)
        return Measured(nats, len(rest), exact, num_given, removed, shrink_ms, read_ms)

    def _read(
        self, prompt: tuple[int, ...], rest: tuple[int, ...], first_line: str
    ) -> tuple[float, bool, float]:
        """Nats, whether the first line is what greedy decoding would write, and ms. Arms often agree: once for each."""
        key = prompt, rest
        if key not in self._latest:
            began = time.process_time()
            last = self._run(prompt, 0, [len(prompt) - 1])
            read_ms = (time.process_time() - began) * 1e3
            more = self._run(rest[:-1], len(prompt), range(len(rest) - 1))
            logits = np.concatenate([last, more])
            scored = [score(row, token_id, 1) for row, token_id in zip(logits, rest, strict=True)]
            line = self._tokenizer.encode(first_line, continues=True)[:_TRUE]
            exact = all(each.top[0][0] == each.token_id for each in scored[: len(line)])
            self._latest[key] = -sum(each.logprob or 0.0 for each in scored), exact, read_ms
        return self._latest[key]

    def _prompt(self, item: Item, parts: Sequence[LinedPart]) -> list[int]:
        if not any(part.lines for part in parts):
            return self._tokenizer.encode(item.before)
        token_ids = self._tokenizer.encode("")
        for part in [*parts, LinedPart(item.path, ())]:
            head = f"{part.path}\n" if self._file_id is not None else f"# {part.path}\n"
            token_ids += [] if self._file_id is None else [self._file_id]
            token_ids += self._tokenizer.encode(head + part.text, continues=True)
        return token_ids + self._tokenizer.encode(item.before, continues=True)

    def _run(self, token_ids: Sequence[int], first: int, rows: Sequence[int]) -> np.ndarray:
        outputs = self._executor.run(
            Batch(
                token_ids=np.array(token_ids, np.int32),
                row_starts=np.array([0, len(token_ids)], np.int32),
                first_places=np.array([first], np.int32),
                block_tables=np.arange(blocks_for(first + len(token_ids)), dtype=np.int32)[None, :],
                masks=(CAUSAL,),
                logit_rows=np.array(list(rows), np.int32),
                hidden_rows=np.array([], np.int32),
            )
        )
        assert outputs is not None, "nobody sets the stop flag of this executor"
        return outputs.logits


def summary(items: Sequence[Item], found: Mapping[str, Sequence[Measured]]) -> list[dict[str, float | str]]:
    """One row per arm; `loss` is relative to the whole context's likelihood, with its 95 %."""
    whole = np.array([each.nats for each in found["nothing"]])
    read = sum(each.read_ms for each in found["nothing"])
    clusters = np.unique([item.cluster for item in items], return_inverse=True)[1]
    draws = np.random.default_rng(0).integers(clusters.max() + 1, size=(4000, clusters.max() + 1))
    by_cluster = np.bincount(clusters, whole)
    rows = []
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
                "shrink_ms": float(np.mean([each.shrink_ms for each in measured])),
                "read_saved": 1 - sum(each.read_ms for each in measured) / read,
                "total_saved": 1 - sum(each.read_ms + each.shrink_ms for each in measured) / read,
            }
        )
    return rows


def table(rows: Sequence[Mapping[str, float | str]]) -> str:
    head = f"{'arm':28} removed  nats/token  loss (95 %)                 exact  passes ms  time saved"
    lines = [
        f"{row['arm']:28} {row['removed']:7.1%}  {row['nats_per_token']:10.4f}  {row['loss']:+7.2%}"
        f" ({row['loss_low']:+7.2%} to {row['loss_high']:+7.2%})  {row['exact']:6.1%}  {row['shrink_ms']:8.1f}"
        f"   {row['total_saved']:7.1%}"
        for row in rows
    ]
    return "\n".join([head, *lines])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("trace", type=Path)
    parser.add_argument("safim", type=Path, nargs="?")
    parser.add_argument("--cursors", type=int, default=40, help="of each suite")
    parser.add_argument(
        "--keep", type=float, default=0.69, help="the budget, as a share of the context's tokens"
    )
    parser.add_argument("--arms", nargs="*", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    with closing(open_checkpoint(options.model)) as checkpoint:
        tokenizer, vocab_size = Tokenizer(checkpoint.vocab), checkpoint.spec.vocab_size
        executor = NativeExecutor(checkpoint, num_blocks=blocks_for(2048), num_threads=options.threads)
    items = [
        *library_items(options.cursors, tokenizer),
        *trace_items(options.trace, options.cursors, tokenizer),
    ]
    if options.safim is not None:
        items += api_items(options.safim, options.cursors, tokenizer)
    order = sorted(range(len(items)), key=lambda number: (number * 0.618) % 1)
    items = [items[number] for number in order]  # all suites from the beginning, whenever it ends
    tokens = LineTokens(lambda text: tokenizer.encode(text, continues=True))
    reader = Reader(executor, tokenizer)
    known = _known(options.record)
    arms = ["nothing", *(arm for arm in options.arms if arm != "nothing")]
    found: dict[str, list[Measured]] = {arm: [] for arm in arms}
    began = time.monotonic()
    done: list[Item] = []
    for item in items:
        keys = {arm: f"{item.cluster}:{len(item.before)}:{arm}:{options.keep}" for arm in arms}
        if time.monotonic() - began >= 60 * options.minutes and not known.keys() >= set(keys.values()):
            continue
        reader.next_item()
        for arm, key in keys.items():
            if key not in known:
                chosen = ARMS[arm]
                passes = None if chosen is None else build_chain(chosen, tokens, vocab_size)
                known[key] = reader.measure(item, passes, tokens, options.keep)
                if options.record is not None:
                    with options.record.open("a") as file:
                        file.write(json.dumps({"key": key, **asdict(known[key])}) + "\n")
            found[arm].append(known[key])
        done.append(item)
        print(f"{len(done)} of {len(items)} cursors", end="\r", flush=True)
    result = {}
    for suite in ("all", "library", "trace", "api"):
        chosen = [n for n, item in enumerate(done) if suite in ("all", item.suite)]
        if chosen:
            some = {arm: [measured[n] for n in chosen] for arm, measured in found.items()}
            rows = summary([done[n] for n in chosen], some)
            print(f"\n{suite}: {len(chosen)} cursors\n{table(rows)}")
            result[suite] = {"cursors": len(chosen), "arms": rows}
    if options.write is not None:
        options.write.write_text(json.dumps({"keep": options.keep, **result}, indent=1) + "\n")
    print(json.dumps({"keep": options.keep, **result}))


def _known(record: Path | None) -> dict[str, Measured]:
    if record is None or not record.exists():
        return {}
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    return {line.pop("key"): Measured(**line) for line in lines}


if __name__ == "__main__":
    main()
