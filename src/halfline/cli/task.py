"""`halfline task`: have a task done by its template, and see, begin and check templates."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.start_up import hurry
from halfline.cli.where import DataDir, Model, SettingsFile

if TYPE_CHECKING:
    from halfline.context.templates.library import TaskLibrary
    from halfline.settings import Settings

task_app = typer.Typer(
    no_args_is_help=True, help="Run tasks by their templates; list, begin and check templates."
)

_WIDE = 160  # columns where the output is no terminal


@task_app.command()
def run(
    task: Annotated[str, typer.Argument(help="A task's name, or what you want in your own words.")],
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=TEXT", help="A placeholder's text.")
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="NAME=PATH", help="A file's text; - reads standard input."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="All placeholders, as one JSON object.", exists=True)
    ] = None,
    context: Annotated[
        list[Path] | None, typer.Option(help="Another file that helps; may be said again.", exists=True)
    ] = None,
    version: Annotated[str | None, typer.Option(help="Left out: the one that falls to you.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=0, help="Most new tokens.")] = None,
    server: Annotated[str | None, typer.Option(help="URL of a running server to ask.")] = None,
    model: Model = None,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
) -> None:
    """Have a task done; the answer goes to standard output, what it cost to standard error."""
    with one_sentence():
        hurry()
        from halfline.cli.task_values import (  # start-up time, here and below
            as_text,
            files_from,
            placeholders_from,
        )
        from halfline.settings import load_settings

        task = as_text(task, "the task")
        version = None if version is None else as_text(version, "--version")
        given = placeholders_from(values or [], files or [], json_file)
        others = files_from(context or [])
        known = load_settings({"model": model, "data_dir": data_dir}, settings)
        if server is not None:
            from halfline.cli.task_asking import run_there

            key = known.api_key.get_secret_value() if known.api_key else None
            run_there(server, task, given, others, version, max_tokens, key)
        else:
            from halfline.cli.task_running import run_here

            run_here(known, _library(known), task, given, others, version, max_tokens)


@task_app.command(name="list")
def list_tasks(
    query: Annotated[
        str | None, typer.Argument(help="Words to find a task by; the most similar first.")
    ] = None,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
) -> None:
    """Every task with its placeholders; those that have to be given are marked by *."""
    with one_sentence():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        from halfline.context.templates.similarity import TaskFinder
        from halfline.settings import load_settings

        tasks = _library(load_settings({"data_dir": data_dir}, settings)).tasks()
        names = list(tasks)
        if query is not None:
            names = [found.task for found in TaskFinder(list(tasks.values())).find(query)]
        table = Table("task", "versions", "placeholders", "what it does")
        for name in names:
            first = next(iter(tasks[name].versions.values()))
            required = first.placeholders.schema.get("required", ())
            marked = [
                f"{each}*" if each in required else each for each in first.placeholders.schema["properties"]
            ]
            row = (name, ", ".join(tasks[name].versions), ", ".join(marked), first.summary)
            table.add_row(*(Text(cell) for cell in row))
        Console(width=None if sys.stdout.isatty() else _WIDE).print(table)


@task_app.command()
def new(
    name: Annotated[str, typer.Argument(help="How the task is to be called, such as write-changelog.")],
    like: Annotated[str, typer.Option(help="The task to begin with.")] = "explain",
    version: Annotated[str, typer.Option(help="How the version is to be called.")] = "1",
    data_dir: DataDir = None,
    settings: SettingsFile = None,
) -> None:
    """Begin a template of your own as a copy of another; prints the file to edit."""
    with one_sentence():
        from halfline.context.templates.library import begin_template
        from halfline.settings import load_settings

        known = load_settings({"data_dir": data_dir}, settings)
        print(
            begin_template(
                known.tasks_dir or known.data_dir / "tasks", name, version, _library(known).task(like)
            )
        )


@task_app.command()
def check(data_dir: DataDir = None, settings: SettingsFile = None) -> None:
    """Read all templates as a server does and say what is wrong with which; exit code 2 if anything is."""
    with one_sentence():
        from halfline.errors import HalflineError
        from halfline.settings import load_settings

        library = _library(load_settings({"data_dir": data_dir}, settings))
        num_versions = sum(len(task.versions) for task in library.tasks().values())
        print(f"{len(library.tasks())} tasks in {num_versions} versions can be used")
        if problems := library.problems():
            raise HalflineError("\nhalfline: ".join(map(str, problems)))


def _library(known: "Settings") -> "TaskLibrary":
    from halfline.context.templates.library import TaskLibrary

    return TaskLibrary(known.tasks_dir or known.data_dir / "tasks")
