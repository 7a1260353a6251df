"""`halfline bench`: how fast the engine is, beside other engines and beside the machine's limits."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfline.cli.bench_cache import bench_cache
from halfline.cli.bench_kv import bench_kv
from halfline.cli.bench_speculation import bench_speculation
from halfline.cli.bench_typed import bench_typed
from halfline.cli.exits import one_sentence
from halfline.cli.where import DataDir, SettingsFile

if TYPE_CHECKING:
    from rich.console import Console

    from halfline.bench.engine_run import EngineResult

bench_app = typer.Typer(no_args_is_help=True, help="Measure speed and memory.")
bench_app.command("cache")(bench_cache)
bench_app.command("kv")(bench_kv)
bench_app.command("speculation")(bench_speculation)
bench_app.command("typed")(bench_typed)


@bench_app.command()
def engine(
    model: Annotated[str | None, typer.Option(help="A stored model's name, or a GGUF file.")] = None,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
    llama_bin: Annotated[
        Path | None,
        typer.Option(help="Folder with llama-bench and its companions; without it, no llama.cpp."),
    ] = None,
    openvino_python: Annotated[
        Path | None,
        typer.Option(help="An interpreter that has openvino-genai; without it, no OpenVINO."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often everybody has a turn.")] = 5,
    threads: Annotated[int, typer.Option(min=1, help="Threads of every engine.")] = 2,
    isa: Annotated[
        str | None, typer.Option(help="Our instruction path, such as avx2; by default this machine's best.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="One round, fewer tokens, no transformers.")] = False,
    results: Annotated[Path, typer.Option(help="Folder for the raw JSON and the roofline.")] = Path(
        "bench/results"
    ),
) -> None:
    """Prefill, decode and parallel decode of the raw engine, interleaved with other engines on the same weights.

    Prints tables, keeps the raw numbers and a roofline, and ends with one line of JSON.
    """
    with one_sentence():
        import json  # start-up time: all of these

        from rich.console import Console

        from halfline.bench.engine_run import EngineOptions, run_engine
        from halfline.bench.machine import describe
        from halfline.bench.record import full_record, summary
        from halfline.bench.report import tables
        from halfline.errors import BadSettings
        from halfline.model.store import ModelStore
        from halfline.native.executor import available_isas
        from halfline.settings import load_settings

        if isa is not None and isa not in available_isas():
            raise BadSettings(f"--isa {isa}: this machine has {', '.join(available_isas())}")
        known = load_settings({"model": model, "data_dir": data_dir}, settings)
        options = EngineOptions(
            model=ModelStore(known.data_dir).resolve(known.model),
            cache_dir=known.cache_dir,
            num_rounds=1 if quick else rounds,
            num_threads=threads,
            isa=isa,
            quick=quick,
            llama_programs=llama_bin,
            openvino_python=openvino_python,
        )
        console = Console(stderr=True)
        with console.status("starting") as status:
            result = run_engine(options, lambda doing: status.update(doing))
        for table in tables(result):
            Console().print(table)
        for peer, reason in result.absent.items():
            console.print(f"{peer} did not take part: {reason}", markup=False)
        results.mkdir(parents=True, exist_ok=True)
        record = full_record(result, describe())
        stem = results / f"engine-{result.model_format}-{str(record['date'])[:10]}"
        stem.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        _draw_roofline(result, stem.with_suffix(".png"), console)
        print(json.dumps(summary(result)))


def _draw_roofline(result: "EngineResult", path: Path, console: "Console") -> None:
    from halfline.bench.roofline import draw  # optional dependency

    try:
        draw(result, path)
    except ImportError:
        console.print(
            "no roofline was drawn: it needs matplotlib, `.venv/bin/pip install -e '.[plots]'`", markup=False
        )
