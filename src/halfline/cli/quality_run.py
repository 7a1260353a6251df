"""`halfline quality run`: two configurations side by side, on suites or on a repository of one's own."""

from pathlib import Path
from typing import Annotated

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.where import DataDir, Model, SettingsFile

CONFIGURATION = "Settings such as kv_format=int8,pipeline.prefix_tokens=512, or a .toml file of them."

Data = Annotated[Path, typer.Option(help="Folder with the published sets.")]
Gates = Annotated[Path | None, typer.Option(help="A file in the place of the quality.toml that comes along.")]
AtOnce = Annotated[int, typer.Option(min=1, help="Answers at a time; changes none.")]


def run(
    baseline: Annotated[str, typer.Option(help=f"What is right. {CONFIGURATION}")] = "",
    candidate: Annotated[str, typer.Option(help=f"What is judged. {CONFIGURATION}")] = "",
    suite: Annotated[
        list[str] | None,
        typer.Option(
            help="single-line, random-span, safim-api, repository, repository-later, repository-third, trace or"
            " texts; may be repeated."
        ),
    ] = None,
    repo: Annotated[
        Path | None, typer.Option(help="Your own repository: holes are cut into its source files.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="So many tasks of each, evenly spread; all unless said.")
    ] = None,
    margins: Annotated[str, typer.Option(help="By which of quality.toml's margins it is judged.")] = "lossy",
    gates: Gates = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="New tokens at most, and true ones.")] = 64,
    seed: Annotated[int, typer.Option(help="Which holes are cut into your repository.")] = 1,
    at_once: AtOnce = 4,
    data: Data = Path("bench/data"),
    record: Annotated[
        Path | None, typer.Option(help="JSON lines to keep results in, and to go on from.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="A report to read, one file with its drawings.")] = None,
    model: Model = None,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
) -> None:
    """Divergence, fidelity and quality of a candidate beside a baseline.

    A run that was ended goes on from its --record. Programs that a model wrote are run in a sandbox. Needs the extras
    `quality` and `syntax`. Prints tables and ends with one line of JSON.
    """
    with one_sentence():
        from halfline.cli.quality_extras import check_extras  # start-up time: all of these

        check_extras()
        from halfline.cli.quality_arms import sides
        from halfline.cli.quality_comparing import Comparison, carry_out, line, show, show_worst, write_page
        from halfline.cli.quality_suites import load_suites
        from halfline.quality.gate_file import OURS, read_gate_file

        limits = read_gate_file(gates or OURS).margins_named(margins)
        suites = load_suites(suite or [], data, limit=limit, seed=seed, repository=repo)
        right, other = sides(baseline, candidate, {"model": model, "data_dir": data_dir}, settings)
        comparison = Comparison(
            baseline=right,
            candidate=other,
            suites=suites,
            margins=limits,
            max_tokens=max_tokens,
            seed=seed,
        )
        cases, verdict = carry_out(comparison, record, at_once)
        title = f"{candidate or 'the usual settings'} beside {baseline or 'the usual settings'}"
        show(title, comparison, verdict)
        show_worst(cases)
        if html is not None:
            write_page(html, title, comparison, cases, verdict)
        print(line(comparison, verdict, {}))
