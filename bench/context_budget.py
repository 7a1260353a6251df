"""A smaller room for other files, better filled: tokens read, likelihood of the true continuation, answers, time.

    python -m bench.context_budget MODEL.gguf REPOSITORY.json.gz [--cursors N] [--room N] [--true N] [--arms ARM ...]
                                   [--threads N] [--record FILE.jsonl] [--write FILE.json] [--plot FILE.png]

The cursors are a repository suite's (bench/repository_suite.py). Each has a window of 256 tokens before it, and in
front of that whole files, far more than there is room for: of every other cursor the file that defines its name, of
the rest that one and up to three more of the package, in an order drawn by lot, as an editor with four open files sends
them. What is compared is which of their tokens are read:

    first           as many as fit, from the last file back, of the one before these its first lines: `--room` tokens
    first@0.69      the same with so much of what `first` had, of this very cursor; so are all arms with a share
    wanted@0.69     chosen by the pass `wanted` (halfline/context/compression/wanted.py); the other passes as well, of
                    which `tail`, `random` and `uniform` choose blindly

The true continuation, up to `--true` tokens, is read teacher forced. Reported: tokens of other files that were left out
of those that `first` had; the negative log-likelihood relative to it, with the 95 % interval, drawn by file; how many
of the lines that it wrote are the true ones, and their edit similarity; processor time of choosing and of reading the
prompt. With --record a run that was ended is gone on with. The last line is JSON.
"""

import argparse
import gzip
import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import get_args

from bench.compression import known_results, summary, table
from bench.compression_items import WINDOW_TOKENS, Item, lines_of
from bench.compression_reading import Measured, Reader
from halfline.bench.steps import blocks_for
from halfline.context.compression.choice import build_chain
from halfline.context.compression.names import PASS_NAMES, Chosen
from halfline.context.compression.passes import Budget, Line, LinedPart, LineTokens, Pass, Shrunk, lined
from halfline.context.compression.wanted import MARKER_TOKENS, Wanted
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.request import Part
from halfline.text.tokenizer import Tokenizer

_ARMS = (
    "first@0.69 wanted@1 wanted@0.69 wanted@0.5 wanted@0.35 related@0.69 prune@0.69 random@0.69 uniform@0.69"
)
_BLIND = ("first", "tail", "random", "uniform")
_REST = 1_500  # characters: more than any continuation
_MORE_FILES = 3
_HEADS = 512  # tokens of paths, of the document's own and what lines encoded whole cost more


class First:
    """The last parts, and of the one before these its first lines, paths counted: what a server does that does not
    choose.
    """

    def __init__(self, tokens: LineTokens) -> None:
        self._tokens = tokens

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        room = budget.room
        left: list[LinedPart] = []
        for part in reversed(parts):
            room -= _head(part, self._tokens)
            lines: list[Line] = []
            for line in part.lines:
                room -= len(self._tokens.ids(line.text))
                if room < 0:
                    break
                lines.append(line)
            left.append(replace(part, lines=tuple(lines)))
        return Shrunk(tuple(left[::-1]), ())


def cursors(file: Path, tokens: LineTokens) -> Iterator[tuple[Item, str]]:
    """With all of the document before it, in the order of their digests, so that packages take turns."""
    packages = json.loads(gzip.decompress(file.read_bytes()))["packages"]
    holes = [(package, *hole) for package in packages for hole in package["holes"]]
    holes.sort(key=lambda hole: _digest(hole[0]["name"], hole[1], str(hole[2])))
    for number, (package, path, start, _, _, defined_in) in enumerate(holes):
        files, cluster = package["files"], f"{package['name']}/{path}"
        shown = [defined_in]
        if number % 2:
            chance = random.Random(f"{cluster}:{start}")
            others = [other for other in sorted(files) if other not in (path, defined_in)]
            shown += chance.sample(others, min(_MORE_FILES, len(others)))
            chance.shuffle(shown)
        before = files[path][:start]
        item = Item(
            suite="one file" if number % 2 == 0 else "open files",
            cluster=cluster,
            path=path,
            parts=tuple(Part(files[other], other) for other in shown),
            before=before[lines_of(tokens, before, WINDOW_TOKENS) :],
            rest=files[path][start:][:_REST],
        )
        yield item, before


class Arms:
    def __init__(
        self, reader: Reader, encode: Callable[[str], Sequence[int]], vocab_size: int, room: int
    ) -> None:
        self._reader = reader
        self._encode = encode
        self._tokens = LineTokens(encode)
        self._vocab_size = vocab_size
        self._room = room

    def measure(self, item: Item, before: str, arm: str) -> Measured:
        """`removed` of `context_tokens`, which are those that `first` has, paths and markers among them: negative where
        an arm has more.
        """
        name, _, share = arm.partition("@")
        given = [lined(part) for part in item.parts]
        first_left = First(self._tokens).shrink(given, Budget(self._room, room=self._room)).parts
        num_first = self._cost(first_left)
        room = self._room if not share else int(float(share) * num_first)
        num_tokens = int(float(share or 1) * self._tokens.count(first_left))
        budget = Budget(num_tokens, before, path=item.path, room=room)
        # Not what other arms split into tokens before: a server meets these lines for the first time.
        chosen_by = self._pass(name, LineTokens(self._encode))
        began = time.process_time()
        left = chosen_by.shrink(given, budget).parts
        shrink_ms = (time.process_time() - began) * 1e3
        return self._reader.measure_left(item, left, shrink_ms, num_first, num_first - self._cost(left))

    def _pass(self, name: str, tokens: LineTokens) -> Pass:
        if name == "wanted":
            return Wanted(tokens)
        return First(tokens) if name == "first" else build_chain([name], tokens, self._vocab_size)  # type: ignore[list-item]

    def _cost(self, parts: Sequence[LinedPart]) -> int:
        return self._tokens.count(parts) + sum(_head(part, self._tokens) for part in parts if part.lines)


def _head(part: LinedPart, tokens: LineTokens) -> int:
    return MARKER_TOKENS + len(tokens.ids(f"{part.path}\n"))


def plot(rows: Sequence[Mapping[str, float | str]], title: str, file: Path) -> None:
    import matplotlib  # an extra

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for name in dict.fromkeys(str(row["arm"]).partition("@")[0] for row in rows):
        own = sorted(
            (
                -100 * float(row["removed"]),
                *(100 * float(row[key]) for key in ("loss", "loss_low", "loss_high")),
            )
            for row in rows
            if str(row["arm"]).partition("@")[0] == name
        )
        x, loss, low, high = (list(column) for column in zip(*own, strict=True))
        errors = [
            [a - b for a, b in zip(loss, low, strict=True)],
            [b - a for a, b in zip(loss, high, strict=True)],
        ]
        axes.errorbar(x, loss, errors, fmt="o--" if name in _BLIND else "o-", capsize=3, label=name)
    axes.axhline(0.4, color="#ee6677", linewidth=1, linestyle="--")
    axes.axvline(-31, color="#ee6677", linewidth=1, linestyle="--")
    axes.set(
        xlabel="tokens of other files, % more than the first that fit",
        ylabel="negative log-likelihood, % more (95 %)",
        title=title,
    )
    axes.legend()
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--cursors", type=int, default=1_000_000)
    parser.add_argument("--room", type=int, default=512)
    parser.add_argument("--true", type=int, default=128, help="tokens of the true continuation")
    parser.add_argument("--arms", nargs="*", default=_ARMS.split(), help="first or a pass, and @ a share")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    for arm in options.arms:
        if arm.partition("@")[0] not in (*get_args(Chosen), *PASS_NAMES):
            passes = ", ".join([*get_args(Chosen), *PASS_NAMES])
            parser.error(f"there is no pass {arm.partition('@')[0]}, only {passes}")
    with closing(open_checkpoint(options.model)) as checkpoint:
        tokenizer, vocab_size = Tokenizer(checkpoint.vocab), checkpoint.spec.vocab_size
        most = max(1.0, *(float(arm.partition("@")[2] or 1) for arm in options.arms))
        num_blocks = blocks_for(int(most * options.room) + 2 * WINDOW_TOKENS + options.true + _HEADS)
        executor = NativeExecutor(checkpoint, num_blocks=num_blocks, num_threads=options.threads)
    encode = partial(tokenizer.encode, continues=True)
    reader = Reader(executor, tokenizer, options.true)
    measuring = Arms(reader, encode, vocab_size, options.room)
    arms = ["first", *options.arms]
    found: dict[str, list[Measured]] = {arm: [] for arm in arms}
    chosen = list(cursors(options.repository, LineTokens(encode)))[: options.cursors]
    known = known_results(options.record)
    for number, (item, before) in enumerate(chosen, 1):
        reader.next_item()
        for arm in arms:
            texts = (item.cluster, item.before, item.rest, *(part.text for part in item.parts))
            key = f"{_digest(*texts)}:{arm}:{options.room}:{options.true}"
            if key not in known:
                known[key] = measuring.measure(item, before, arm)
                if options.record is not None:
                    with options.record.open("a") as file:
                        file.write(json.dumps({"key": key, **asdict(known[key])}) + "\n")
            found[arm].append(known[key])
        print(f"{number} of {len(chosen)} cursors", end="\r", flush=True)
    result: dict[str, object] = {"room": options.room, "true_tokens": options.true}
    for suite in ("all", "one file", "open files"):
        numbers = [n for n, (item, _) in enumerate(chosen) if suite in ("all", item.suite)]
        own = [chosen[n][0] for n in numbers]
        rows = summary(own, {arm: [measured[n] for n in numbers] for arm, measured in found.items()}, "first")
        num_files = len({item.cluster for item in own})
        title = f"{suite}: {len(own)} cursors in {num_files} files"
        print(f"\n{title}\n{table(rows)}")
        result[suite] = {"cursors": len(own), "files": num_files, "arms": rows}
        if suite == "all" and options.plot is not None:
            plot(rows, title, options.plot)
    if options.write is not None:
        options.write.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


if __name__ == "__main__":
    main()
