"""`halfline bench typed`: what a keystroke costs whose answer is known."""

from typing import Annotated

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.where import DataDir, SettingsFile


def bench_typed(
    model: Annotated[str | None, typer.Option(help="A stored model's name, or a GGUF file.")] = None,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
    count: Annotated[int, typer.Option(min=10, help="Keystrokes typed through.")] = 1000,
) -> None:
    """Processor time of the server for keystrokes whose answer is known, from the first byte read to the last written.

    Prints a table and ends with one line of JSON.
    """
    with one_sentence():
        import json  # start-up time: all of these
        import statistics

        from rich.console import Console
        from rich.table import Table

        from halfline.api.serving import Loaded
        from halfline.bench.typed_through import measure_typed_through
        from halfline.cli.loading import assemble
        from halfline.cli.model_parts import find_model, load_parts
        from halfline.quality.texts import default_texts
        from halfline.settings import load_settings

        # What is computed ahead would be counted as the next keystroke's.
        known = load_settings({"model": model, "data_dir": data_dir, "warmup.share": 0.0}, settings)

        def load() -> Loaded:
            return assemble(known, load_parts(known, find_model(known))).loaded

        with Console(stderr=True).status("typing"):
            texts = [path.read_text("utf-8") for path in default_texts()]
            result = measure_typed_through(load, texts, count)
        table = Table("processor ms", "p50", "p95", "p99")
        summary: dict[str, object] = {"keystrokes": len(result.typed_ms), "others": result.num_others}
        for name, times in (("typed through", result.typed_ms), ("GET /v1/models", result.empty_ms)):
            cuts = statistics.quantiles(times, n=100)
            quantiles = {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98]}
            table.add_row(name, *(f"{value:.3f}" for value in quantiles.values()))
            summary[name] = {key: round(value, 4) for key, value in quantiles.items()}
        Console().print(table)
        print(json.dumps(summary))
