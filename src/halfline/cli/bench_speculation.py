"""`halfline bench speculation`: what drafts gain, on which kind of answers."""

from pathlib import Path
from typing import Annotated

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.where import DataDir, SettingsFile


def bench_speculation(
    model: Annotated[str | None, typer.Option(help="A stored model's name, or a GGUF file.")] = None,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
    data: Annotated[Path, typer.Option(help="Folder with the recorded session and HumanEval.")] = Path(
        "bench/data"
    ),
    stretches: Annotated[int, typer.Option(min=1, help="Places of the session to replay from.")] = 14,
    keystrokes: Annotated[int, typer.Option(min=1, help="Keystrokes in a row at each place.")] = 16,
    threads: Annotated[int, typer.Option(min=1, help="Threads that compute.")] = 2,
    results: Annotated[Path, typer.Option(help="Folder for the raw JSON.")] = Path("bench/results"),
) -> None:
    """Decoding with drafts against decoding without, item by item; both must say the same.

    Prints a table, keeps the raw numbers and ends with one line of JSON.
    """
    with one_sentence():
        import json  # start-up time: all of these
        import os
        from dataclasses import asdict

        from rich.console import Console
        from rich.table import Table

        from halfline.bench.machine import describe
        from halfline.bench.speculation import Speculating, summarize
        from halfline.bench.speculation_items import workloads
        from halfline.errors import BadSettings
        from halfline.model.load import open_checkpoint
        from halfline.model.store import ModelStore
        from halfline.native.executor import NativeExecutor
        from halfline.settings import load_settings
        from halfline.text.tokenizer import Tokenizer

        try:
            items = workloads(data, stretches, keystrokes)
        except (OSError, ValueError) as error:
            raise BadSettings(f"--data: {error}") from error
        known = load_settings({"model": model, "data_dir": data_dir}, settings)
        checkpoint = open_checkpoint(ModelStore(known.data_dir).resolve(known.model))
        tokenizer = Tokenizer(checkpoint.vocab)
        executor = NativeExecutor(checkpoint, num_blocks=_NUM_BLOCKS, num_threads=threads)
        checkpoint.close()
        console, record = Console(stderr=True), describe()
        record |= {"threads": threads, "isa": executor.isa, "load_before": os.getloadavg()[0]}
        sides = Speculating(executor, tokenizer)
        compared = {}
        for name, asked in items.items():
            with console.status(f"{name}: {len(asked)} answers"):
                compared[name] = sides.compare(asked)
        record["load_after"] = os.getloadavg()[0]
        gains = {name: summarize(each) for name, each in compared.items()}
        table = Table(
            "times without drafts / with", "items", "all", "median", "p10", "accepted", "tokens a step"
        )
        for name, gain in gains.items():
            ratios = (f"{ratio:.2f}" for ratio in (gain.ratio, gain.median, gain.p10))
            table.add_row(
                name, str(gain.num_items), *ratios, f"{gain.acceptance:.0%}", f"{gain.tokens_per_step:.2f}"
            )
        Console().print(table)
        record["gains"] = {name: asdict(gain) for name, gain in gains.items()}
        results.mkdir(parents=True, exist_ok=True)
        raw = {**record, "items": {name: [asdict(each) for each in all_] for name, all_ in compared.items()}}
        path = results / f"speculation-{str(record['date'])[:10]}.json"
        path.write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(record))


_NUM_BLOCKS = 1024
