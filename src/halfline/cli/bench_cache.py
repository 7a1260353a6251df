"""`halfline bench cache`: what the caches of answers are worth, over requests that are asked again and nearly again."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.where import DataDir, SettingsFile

if TYPE_CHECKING:
    from halfline.bench.cache_requests import Place


def bench_cache(
    data: Annotated[Path, typer.Option(help="Folder with rustcode.json.gz and the infilling sets.")],
    model: Annotated[str | None, typer.Option(help="A stored model's name, or a GGUF file.")] = None,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
    requests: Annotated[int, typer.Option(min=10, help="How many are made; 100000 for the full run.")] = 2000,
    max_tokens: Annotated[int, typer.Option(min=1, help="New tokens of each answer.")] = 8,
    places: Annotated[
        int,
        typer.Option(min=6, help="Cursors in real code; about three times as many questions are computed."),
    ] = 250,
    minutes: Annotated[
        float | None,
        typer.Option(help="Stop after so long with what there is; unless said, make all requests."),
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder for the raw JSON and the plots.")] = Path(
        "bench/results"
    ),
) -> None:
    """Hit shares and latencies of every tier, and false hits, over places in real code drawn by Zipf's law.

    Prints a table, keeps the raw numbers and plots, and ends with one line of JSON.
    """
    with one_sentence():
        import json  # start-up time: all of these
        import math
        import tempfile
        import time
        from contextlib import closing
        from itertools import count, takewhile

        from rich.console import Console

        from halfline.api.serving import Loaded
        from halfline.bench.cache_replay import Asked, replay_caches
        from halfline.bench.cache_report import Rows, draw, summary, tables
        from halfline.bench.cache_requests import drawn
        from halfline.bench.machine import describe
        from halfline.cli.loading import assemble
        from halfline.cli.model_parts import find_model, load_parts
        from halfline.settings import load_settings

        console = Console(stderr=True)
        machine = describe()
        results.mkdir(parents=True, exist_ok=True)
        stem = results / f"cache-{requests}-{str(machine['date'])[:10]}"
        rows = Rows(stem.with_suffix(".jsonl.gz"))
        with closing(rows), tempfile.TemporaryDirectory() as folder, console.status("starting") as status:
            known = load_settings(
                {
                    "model": model,
                    "data_dir": data_dir,
                    "cache_dir": folder,
                    "cache.disk_bytes": "256MiB",
                    "cache.syntax": "on",
                    "cache.semantic": "on",
                    # What is computed ahead would be counted as the next request's.
                    "warmup.share": 0.0,
                },
                settings,
            )

            def load() -> Loaded:
                return assemble(known, load_parts(known, find_model(known))).loaded

            found_places = _places(data, places)
            end = math.inf if minutes is None else time.monotonic() + 60 * minutes
            counted = count(1)

            def progress(asked: Asked) -> None:
                rows.add(asked)
                status.update(f"{next(counted)} of {requests} requests")

            replayed = replay_caches(
                load,
                takewhile(lambda request: time.monotonic() < end, drawn(found_places, requests, seed=1)),
                max_tokens,
                progress,
            )
        found = {**summary(replayed), "places": len(found_places)}
        for table in tables(found):
            Console().print(table)
        stem.with_suffix(".json").write_text(
            json.dumps({**machine, **found, "false": replayed.false}, indent=1) + "\n", "utf-8"
        )
        try:
            draw(replayed, stem.with_suffix(".png"))
        except ImportError:
            console.print("no plots were drawn: they need matplotlib, the extra `plots`", markup=False)
        print(json.dumps(found))


def _places(data: Path, count: int) -> "list[Place]":
    """A third each from the editing trace, the infilling sets and Python's own library, as far as there are so many."""
    from halfline.bench.cache_requests import place
    from halfline.bench.keystrokes import replay
    from halfline.quality.infilling.suites import load

    third = -(-count // 3)
    transactions = range(3000, 36000, max(1, 33000 // third))
    found = [
        place("trace", f"trace/{each.transaction}.rs", each.prefix, each.suffix)
        for each in replay(data / "rustcode.json.gz", transactions, 1)
    ][:third]
    tasks = [*load(data, "single-line", third // 2), *load(data, "safim-api", third - third // 2)]
    found += [
        place("infilling", f"infilling/{number}-{task.path}", task.prefix, task.suffix)
        for number, task in enumerate(tasks)
    ]
    library = _library(count - len(found))
    found += [place("library", path, before, behind) for path, before, behind in library]
    return found


def _library(count: int) -> Iterator[tuple[str, str, str]]:
    """Cursors behind the indentation of lines of this interpreter's own library, spread over its files."""
    import sysconfig

    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    num_given = step = 0
    while num_given < count and step < 1000:
        for file in files:
            lines = file.read_text("utf-8", errors="replace").splitlines(keepends=True)
            line = 40 + 23 * step
            if line >= len(lines) or num_given == count:
                continue
            indent = len(lines[line]) - len(lines[line].lstrip(" "))
            before = "".join(lines[:line]) + lines[line][:indent]
            num_given += 1
            yield (
                f"library/{step}-{file.name}",
                before,
                lines[line][indent:].partition("\n")[1] + "".join(lines[line + 1 :]),
            )
        step += 1
