"""The cases of `python -m bench.compression`: a cursor, the window before it, context in front of that, what came next.

    library      this Python's standard library: the pieces of imported modules that have most in common with the window
    repository   the repository suite's cursors, with pieces of the same package's other files, chosen in the same way
    later        the same of packages by which nothing was chosen; all of it is held out
    trace        the recorded document's own text farther above, as a model with a longer window would see it
    api          SAFIM's API calls: the same of their files

A file belongs to one of two halves, by its name's digest: passes are chosen by `development`, judged by `held-out`. Of
the trace, stretches of 200 lines take the place of files. Items are made one by one, so that few of many cost little.
"""

import gzip
import hashlib
import json
import random
import re
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Literal

from bench.window_quality import Cursor, trace_cursors
from halfline.context.compression.passes import LineTokens
from halfline.context.compression.words import names
from halfline.request import Part

Half = Literal["development", "held-out"]

WINDOW_TOKENS, CONTEXT_TOKENS = 256, 768
_LEAST_CONTEXT = 300  # tokens: of less there is nothing to choose from
_DEVELOPMENT_SHARE = 3  # every third file
_PIECE_LINES = 40
_FAR_ENOUGH = 16_000  # characters that are looked at before a cursor
_REST = 1_500  # characters: more than any continuation
_TRACE_CURSORS = 300
_LEAST_BEFORE = 3_000


@dataclass(frozen=True, slots=True)
class Item:
    """`cluster` names the file: items of one are not independent. `rest` is what truly stands behind `before`."""

    suite: str
    cluster: str
    path: str
    parts: tuple[Part, ...]
    before: str
    rest: str


@dataclass(frozen=True, slots=True)
class Sources:
    """None: without that suite. The standard library is this Python's."""

    trace: Path
    safim: Path | None = None
    repository: Path | None = None
    later: Path | None = None


def items(sources: Sources, half: Half, count: int, tokens: LineTokens) -> list[Item]:
    """At most `count` of each suite, the same ones each time; all suites from the beginning on, in turns."""
    suites: list[Iterator[Item | None]] = [library_items(tokens), trace_items(sources.trace, tokens)]
    if sources.repository is not None:
        suites.append(repository_items("repository", sources.repository, tokens))
    if sources.later is not None:
        suites.append(repository_items("later", sources.later, tokens))
    if sources.safim is not None:
        suites.append(api_items(sources.safim, tokens))
    chosen = [list(islice(_usable(suite, half, tokens), count)) for suite in suites]
    order = [(place / len(suite), item) for suite in chosen for place, item in enumerate(suite)]
    return [item for _, item in sorted(order, key=lambda each: each[0])]


def half_of(cluster: str) -> Half:
    digest = hashlib.sha256(cluster.encode()).digest()
    if cluster.startswith("later:"):
        return "held-out"
    return "development" if digest[0] % _DEVELOPMENT_SHARE == 0 else "held-out"


def _usable(suite: Iterator[Item | None], half: Half, tokens: LineTokens) -> Iterator[Item]:
    for item in suite:
        if item is not None and half_of(item.cluster) == half:
            if sum(_count(tokens, part.text) for part in item.parts) >= _LEAST_CONTEXT:
                yield item


def trace_items(trace: Path, tokens: LineTokens) -> Iterator[Item]:
    text = json.loads(gzip.decompress(trace.read_bytes()))["endContent"]
    for cursor in trace_cursors(trace, _TRACE_CURSORS, random.Random(2)):
        stretch = cursor.before.count("\n") // 200
        rest = text[len(cursor.before) :][:_REST]
        yield _far_item("trace", f"trace:{stretch}", "main.rs", Cursor("rust", cursor.before, rest), tokens)


def api_items(safim: Path, tokens: LineTokens) -> Iterator[Item]:
    tasks = [json.loads(line) for line in gzip.decompress(safim.read_bytes()).splitlines()]
    random.Random(3).shuffle(tasks)
    for task in tasks:
        before, _, behind = task["eval_prompt"].partition("{{completion}}")
        if len(before) >= _LEAST_BEFORE:
            cursor = Cursor("api", before, (task["ground_truth"] + behind)[:_REST])
            suffix = {"python": "py", "java": "java", "cpp": "cpp", "csharp": "cs"}[task["lang"]]
            yield _far_item("api", f"api:{task['task_id']}", f"main.{suffix}", cursor, tokens)


def library_items(tokens: LineTokens) -> Iterator[Item | None]:
    """One of each file; None for a file that is of no use."""
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for path in sorted(root.rglob("*.py")) if _is_library(path)]
    random.Random(4).shuffle(files)
    for path in files:
        yield _library_item(root, path, tokens)


def _is_library(path: Path) -> bool:
    others = {"test", "tests", "site-packages", "idlelib", "lib2to3", "encodings"}
    return others.isdisjoint(path.parts) and path.stat().st_size > 8000


def _library_item(root: Path, path: Path, tokens: LineTokens) -> Item | None:
    text = path.read_text("utf-8", errors="replace")
    modules = dict.fromkeys(re.findall(r"(?m)^(?:from|import) (\w+)", text))
    imported = [root / f"{name}.py" for name in modules if name != path.stem]
    files = {file.name: file.read_text("utf-8") for file in imported if file.exists()}
    lines = text.splitlines(True)
    inside = [
        number
        for number in range(60, len(lines) - 15)
        if re.match(r"\s+\w.*\(", lines[number]) and len(lines[number]) < 100
    ]
    if not files or not inside:
        return None
    number = random.Random(path.name).choice(inside)
    line = lines[number]
    place = sum(map(len, lines[:number])) + len(line) - len(line.lstrip()) + len(line.strip()) // 3
    cluster = f"library:{path.relative_to(root)}"
    return _alike_item("library", cluster, path.name, text, place, files, tokens)


def repository_items(suite: str, file: Path, tokens: LineTokens) -> Iterator[Item]:
    """Files in the order of their digests, so that packages take turns."""
    packages = json.loads(gzip.decompress(file.read_bytes()))["packages"]
    holes = [(package, *hole[:2]) for package in packages for hole in package["holes"]]

    def order(hole: tuple[dict[str, object], str, int]) -> bytes:
        return hashlib.sha256(f"{hole[0]['name']}/{hole[1]}#{hole[2]}".encode()).digest()

    for package, path, place in sorted(holes, key=order):
        others = {other: text for other, text in package["files"].items() if other != path}
        cluster = f"{suite}:{package['name']}/{path}"
        yield _alike_item(suite, cluster, path, package["files"][path], place, others, tokens)


def _far_item(suite: str, cluster: str, path: str, cursor: Cursor, tokens: LineTokens) -> Item:
    before = cursor.before[-_FAR_ENOUGH:]
    window = lines_of(tokens, before, WINDOW_TOKENS)
    far = lines_of(tokens, before[:window], CONTEXT_TOKENS)
    return Item(suite, cluster, path, (Part(before[far:window], path),), before[window:], cursor.rest)


def _alike_item(
    suite: str, cluster: str, path: str, text: str, place: int, files: dict[str, str], tokens: LineTokens
) -> Item:
    before = text[:place][-_FAR_ENOUGH:]
    window = before[lines_of(tokens, before, WINDOW_TOKENS) :]
    parts = tuple(_most_alike(files, window, tokens))
    return Item(suite, cluster, path, parts, window, text[place:][:_REST])


def _most_alike(files: dict[str, str], window: str, tokens: LineTokens) -> Sequence[Part]:
    """Pieces by the share of names in common, the most alike last."""
    wanted = frozenset(names(window))
    ranked = []
    for name, text in files.items():
        for start, (piece, own) in enumerate(_pieces(text)):
            ranked.append((len(wanted & own) / max(1, len(wanted | own)), name, start, piece))
    room, chosen = CONTEXT_TOKENS, []
    for _, name, _, piece in sorted(ranked, reverse=True):
        room -= _count(tokens, piece)
        if room < 0:
            break
        chosen.append(Part(piece, name))
    return chosen[::-1]


@cache
def _pieces(text: str) -> Sequence[tuple[str, frozenset[str]]]:
    lines = text.splitlines(True)
    found = ["".join(lines[start : start + _PIECE_LINES]) for start in range(0, len(lines), _PIECE_LINES)]
    return tuple((piece, frozenset(names(piece))) for piece in found)


def lines_of(tokens: LineTokens, text: str, num_tokens: int) -> int:
    """Where the last lines begin that have at most so many tokens together."""
    start = len(text)
    while start:
        earlier = text.rfind("\n", 0, start - 1) + 1
        num_tokens -= len(tokens.ids(text[earlier:start]))
        if num_tokens < 0:
            break
        start = earlier
    return start


def _count(tokens: LineTokens, text: str) -> int:
    return sum(len(tokens.ids(line)) for line in text.splitlines(True))
