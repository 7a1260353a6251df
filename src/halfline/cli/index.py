"""`halfline index`: reads a folder's source files, so that a server may show what is useful in them to the model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.where import DataDir, SettingsFile

if TYPE_CHECKING:
    from rich.console import Console

    from halfline.context.sources.index import WorkspaceIndex


def index(
    folder: Annotated[Path, typer.Argument(help="The folder to read.", metavar="DIR")],
    watch: Annotated[bool, typer.Option("--watch", help="Go on, and read again what changes.")] = False,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
) -> None:
    """Read a folder's source files into an index, or bring it up to date.

    What `.gitignore` names, secrets, binary, minified and huge files are left out. Servers use it with
    `context.index = DIR`.
    """
    with one_sentence():
        from rich.console import Console  # start-up time: all of these

        from halfline.context.sources.index import index_of
        from halfline.errors import BadSettings
        from halfline.settings import load_settings

        known = load_settings({"data_dir": data_dir}, settings)
        if not folder.is_dir():
            raise BadSettings(f"{folder} is no folder")
        found = index_of(folder, known.data_dir)
        console = Console(stderr=True)
        _update(found, console)
        if watch:
            _watch(found, console)


def _update(found: "WorkspaceIndex", console: "Console") -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    # How many files there are is known only behind the last one, unless they were counted the last time.
    total = found.num_files()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"reading {found.root.name}", total=total)
        updated = found.update(lambda num_files: progress.advance(task, num_files))
    print(
        f"{updated.num_read + updated.num_unchanged} files: {updated.num_read} read, {updated.num_unchanged} as before,"
        f" {updated.num_refused} not to be shown, {updated.num_forgotten} forgotten"
    )


def _watch(found: "WorkspaceIndex", console: "Console") -> None:
    from halfline.errors import MissingExtra

    try:
        from watchfiles import watch  # optional dependency
    except ImportError as error:
        raise MissingExtra("watching a folder", "index") from error
    console.print(f"watching {found.root}; Ctrl-C ends it", markup=False)
    changes = watch(found.root, debounce=1000, raise_interrupt=False, ignore_permission_denied=True)
    for _ in changes:
        updated = found.update()
        if updated.num_read or updated.num_forgotten or updated.num_refused:
            print(f"{updated.num_read} read, {updated.num_forgotten} forgotten", flush=True)
