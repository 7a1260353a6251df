"""`halfline quality infilling`: holes of the shared sets, filled in this process as for an editor."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.where import DataDir, Model, SettingsFile

if TYPE_CHECKING:
    from rich.table import Table

    from halfline.pipeline.pipeline import Pipeline
    from halfline.quality.infilling.report import Compared
    from halfline.quality.infilling.run import Fill, Result
    from halfline.quality.infilling.suites import Task
    from halfline.request import SamplingParams

_ARM = "Settings by dotted name, such as pipeline.prefix_tokens=256,engine.speculation=off."


def infilling(
    suite: Annotated[
        Literal["single-line", "random-span", "safim-api"], typer.Option(help="Which set.")
    ] = "random-span",
    limit: Annotated[
        int | None, typer.Option(min=1, help="So many of its tasks, evenly spread; all unless said.")
    ] = None,
    baseline: Annotated[str, typer.Option(help=f"What is right. {_ARM}")] = "",
    candidate: Annotated[
        str | None, typer.Option(help=f"What is judged; left out, the baseline alone is run. {_ARM}")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="New tokens at most.")] = 64,
    draws: Annotated[
        int,
        typer.Option(
            min=1, help="Answers to each hole, each with its own seed; of several, pass@k is shown."
        ),
    ] = 1,
    at_once: Annotated[int, typer.Option(min=1, help="Tasks at a time; changes no answer.")] = 4,
    data: Annotated[Path, typer.Option(help="Folder with the sets.")] = Path("bench/data"),
    record: Annotated[
        Path | None, typer.Option(help="JSON lines to keep results in, and to go on from.")
    ] = None,
    model: Model = None,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
) -> None:
    """Exact match, first line, edit similarity and pass@1 in a sandbox, of one way to serve or of two.

    Programs that a model wrote are run: see quality/infilling/sandbox.py for what holds them. Needs the extra
    `quality`. Prints a table and ends with one line of JSON.
    """
    with one_sentence():
        import json  # start-up time: all of these

        from rich.console import Console
        from rich.table import Table

        from halfline.errors import BadSettings
        from halfline.quality.configuration import read_configuration

        try:
            from halfline.quality.infilling import report, suites
            from halfline.quality.infilling.draws import compare_pass_at, mean_pass_at
        except ImportError as error:
            raise BadSettings(
                f"this needs the extra `quality`, .venv/bin/pip install -e '.[quality]': {error}"
            ) from error
        try:
            tasks = suites.load(data, suite, limit)
        except (OSError, ValueError) as error:
            raise BadSettings(f"--data: {error}") from error
        arms = {"baseline": baseline} | ({} if candidate is None else {"candidate": candidate})
        drawn: dict[str, list[list[Result]]] = {}
        for name, words in arms.items():
            flags = {"model": model, "data_dir": data_dir, **read_configuration(words)}
            drawn[name] = _filled(name, flags, settings, tasks, max_tokens, draws, at_once, record)
        results = {name: [result for each in of_arm for result in each] for name, of_arm in drawn.items()}
        table = Table(
            f"{suite}, {len(tasks)} tasks", *arms, *(["difference (95 %)"] if candidate is not None else [])
        )
        found: dict[str, object] = {}
        first, second = results["baseline"], results.get("candidate")
        for metric in report.METRICS:
            if second is None:
                _add(table, found, metric, report.mean(first, metric))
            else:
                _add_compared(table, found, metric, report.compare(first, second, metric))
        for k in _ks(draws):
            if second is None:
                _add(table, found, f"pass@{k}", mean_pass_at(k, drawn["baseline"]))
            else:
                compared = compare_pass_at(k, drawn["baseline"], drawn["candidate"])
                _add_compared(table, found, f"pass@{k}", compared)
        Console().print(table)
        print(json.dumps({"suite": suite, "tasks": len(tasks), "draws": draws, "arms": arms, **found}))


def _ks(num_draws: int) -> list[int]:
    """For which k pass@k is shown beside pass@1: powers of two, and as many as were drawn."""
    return sorted({1 << power for power in range(1, num_draws.bit_length())} | {num_draws} - {1})


def _add(table: "Table", found: dict[str, object], metric: str, value: float | None) -> None:
    if value is not None:
        table.add_row(metric, f"{value:.4g}")
        found[metric] = value


def _add_compared(table: "Table", found: dict[str, object], metric: str, compared: "Compared | None") -> None:
    if compared is None:
        return
    interval = compared.interval
    span = "" if interval is None else f" ({interval.low:+.4f} – {interval.high:+.4f})"
    table.add_row(
        metric,
        f"{compared.baseline:.4g}",
        f"{compared.candidate:.4g}",
        f"{compared.candidate - compared.baseline:+.4f}{span}",
    )
    found[metric] = asdict(compared)


def _filled(
    arm: str,
    flags: dict[str, object],
    file: Path | None,
    tasks: "list[Task]",
    max_tokens: int,
    num_draws: int,
    at_once: int,
    record: Path | None,
) -> "list[list[Result]]":
    """One arm's results, draw by draw: its own engine over its own copy of the weights."""
    import asyncio

    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    from halfline.cli.loading import assemble
    from halfline.cli.model_parts import find_model, load_parts
    from halfline.quality.infilling.run import Record, fill_all
    from halfline.quality.infilling.sandbox import run_program
    from halfline.settings import load_settings

    known = load_settings(flags, file)
    about = {
        "max_tokens": max_tokens,
        "settings": known.model_dump(mode="json", exclude={"data_dir", "cache_dir"}),
    }
    ready = assemble(known, load_parts(known, find_model(known)))
    try:
        with Progress(
            *Progress.get_default_columns(), MofNCompleteColumn(), console=Console(stderr=True)
        ) as bar:
            row = bar.add_task(arm, total=len(tasks) * num_draws)
            return [
                asyncio.run(
                    fill_all(
                        tasks,
                        _filler(ready.loaded.pipeline, params, max_tokens),
                        run_program,
                        Record(record, about | ({} if params.seed is None else {"seed": params.seed})),
                        at_once,
                        lambda done: bar.advance(row, done),
                    )
                )
                for params in _seeded(known.api.find_profile(None).params, num_draws)
            ]
    finally:
        ready.loaded.close()


def _seeded(params: "SamplingParams", num_draws: int) -> "list[SamplingParams]":
    """The same draws in each run; a single one is drawn as the profile says."""
    return [params] if num_draws == 1 else [replace(params, seed=seed) for seed in range(num_draws)]


def _filler(pipeline: "Pipeline", params: "SamplingParams", max_tokens: int) -> "Fill":
    """Asks as an editor does: the document with a cursor in it, and the server's profile (`api.profile`)."""
    import uuid

    from halfline.quality.infilling.run import Filled
    from halfline.request import CompletionRequest, Document

    async def fill(task: "Task") -> Filled:
        completion = await pipeline.complete(
            CompletionRequest(
                id=f"cmpl-{uuid.uuid4().hex}",
                prompt=Document(task.prefix, task.suffix, task.path, task.parts),
                params=replace(params, stop=("\n",) if task.single_line else ()),
                max_tokens=max_tokens,
            )
        )
        receipt = completion.receipt
        return Filled(
            text=completion.choices[0].text, ms=receipt.total_ms, computed_tokens=receipt.num_computed_tokens
        )

    return fill
