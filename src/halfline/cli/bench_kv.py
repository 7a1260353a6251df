"""`halfline bench kv`: what KV memory costs and saves."""

from pathlib import Path
from typing import Annotated

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.where import DataDir, SettingsFile


def bench_kv(
    model: Annotated[str | None, typer.Option(help="A stored model's name, or a GGUF file.")] = None,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
    data: Annotated[Path, typer.Option(help="Folder with the recorded session.")] = Path("bench/data"),
    rounds: Annotated[int, typer.Option(min=1, help="How often everything is measured.")] = 5,
    threads: Annotated[int, typer.Option(min=1, help="Threads that compute.")] = 2,
    results: Annotated[Path, typer.Option(help="Folder for the raw JSON.")] = Path("bench/results"),
) -> None:
    """Cost of a hit, gain of reuse, waste beside slab classes, tiers, and very many sequences at once.

    Prints tables, keeps the raw numbers, and ends with one line of JSON.
    """
    with one_sentence():
        import json  # start-up time: all of these

        from rich.console import Console

        from halfline.bench.kv_run import record, run_kv, summary, tables
        from halfline.bench.machine import describe
        from halfline.errors import BadSettings
        from halfline.model.store import ModelStore
        from halfline.settings import load_settings

        known = load_settings({"model": model, "data_dir": data_dir}, settings)
        with Console(stderr=True).status("measuring"):
            model_path = ModelStore(known.data_dir).resolve(known.model)
            try:
                result = run_kv(model_path, data / "rustcode.json.gz", threads, rounds)
            except (OSError, ValueError) as error:
                raise BadSettings(f"--data: {error}") from error
        for table in tables(result):
            Console().print(table)
        machine = describe()
        results.mkdir(parents=True, exist_ok=True)
        path = results / f"kv-{str(machine['date'])[:10]}.json"
        path.write_text(json.dumps(record(result, machine), indent=1) + "\n", encoding="utf-8")
        print(json.dumps(summary(result)))
