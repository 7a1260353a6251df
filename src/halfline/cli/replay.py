"""`halfline replay`: recorded typing, asked of a server keystroke by keystroke, alone or beside llama-server."""

import math
from pathlib import Path
from typing import Annotated, Literal

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.interrupts import orderly_end
from halfline.cli.where import DataDir, Model, SettingsFile


def replay(
    traces: Annotated[
        list[Path] | None, typer.Argument(help="Editing traces (josephg/editing-traces), .json or .json.gz.")
    ] = None,
    git: Annotated[Path | None, typer.Option(help="A git repository whose files' commits are typed.")] = None,
    file: Annotated[
        list[str] | None, typer.Option(help="A file of it; without, those with the most commits.")
    ] = None,
    first: Annotated[
        list[int] | None,
        typer.Option("--from", min=0, help="Transaction to begin at; several times for several places."),
    ] = None,
    places: Annotated[
        int | None, typer.Option(min=1, help="Without --from: places spread over what there is.")
    ] = None,
    keystrokes: Annotated[int, typer.Option(min=1, help="Keystrokes from each place.")] = 500,
    typists: Annotated[int, typer.Option(min=1, help="Who type at once, each at a place of his own.")] = 1,
    pause_ms: Annotated[
        float | None,
        typer.Option(
            min=1, help="Real time: one keystroke every so often. Without: when the answer is there."
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.1, help="Begin nothing new after so long; places share the time evenly."),
    ] = None,
    against: Annotated[
        Literal["llama-server"] | None, typer.Option(help="Who answers the same keystrokes in turns with us.")
    ] = None,
    llama_bin: Annotated[
        Path | None, typer.Option(help="Folder with llama-server and llama-quantize.")
    ] = None,
    llama_format: Annotated[str, typer.Option(help="Its format of the same weights.")] = "Q4_0",
    llama_argument: Annotated[
        list[str] | None, typer.Option(help="One more argument for it, such as --spec-type=ngram-mod.")
    ] = None,
    anchored: Annotated[
        bool,
        typer.Option("--anchored", help="And once more llama-server, given the prompts that ours chose."),
    ] = False,
    url: Annotated[
        str | None, typer.Option(help="A server that runs already, instead of one of ours.")
    ] = None,
    dialect: Annotated[
        Literal["openai", "llama"], typer.Option(help="What the server at --url speaks.")
    ] = "openai",
    model: Model = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of every server.")] = 2,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
    check_equal: Annotated[
        bool,
        typer.Option(
            "--check-equal", help="Instead: every cache and idle trick on and off must give the same text."
        ),
    ] = False,
    mechanisms: Annotated[
        bool,
        typer.Option(
            "--mechanisms", help="Instead: servers with each mechanism alone, all, and all but one."
        ),
    ] = False,
    results: Annotated[Path, typer.Option(help="Folder for the raw JSON and the pictures.")] = Path(
        "bench/results"
    ),
) -> None:
    """Ask for a completion after each keystroke of recorded typing, and say what it took and what it was worth.

    A server of ours is started with empty state; with --against, another one answers the same keystrokes in turns,
    while one runs the other is stopped. Prints tables, keeps raw numbers and ends with one line of JSON.
    """
    with one_sentence():
        # Start-up time: both.
        from halfline.cli.replay_arguments import Opponent, ReplayArguments, find_stretches
        from halfline.cli.replaying import check_equality, compare_mechanisms, replay_and_report

        arguments = ReplayArguments(
            stretches=find_stretches(
                traces or [], git, file or [], first or [], places or max(typists, 1), keystrokes
            ),
            num_typists=typists,
            pause_s=None if pause_ms is None else pause_ms / 1e3,
            most_s=math.inf if minutes is None else minutes * 60,
            url=url,
            dialect=dialect,
            model=model,
            threads=threads,
            data_dir=data_dir,
            settings=settings,
            opponent=Opponent.chosen(
                against, llama_bin, llama_format, llama_argument or [], anchored=anchored
            ),
            results=results,
        )
        # Told to stop, it says what it knows and stops its servers too: some are frozen, and would stay so.
        with orderly_end():
            if check_equal:
                check_equality(arguments)
            elif mechanisms:
                compare_mechanisms(arguments)
            else:
                replay_and_report(arguments)
