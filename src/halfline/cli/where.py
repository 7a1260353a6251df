"""The options that say which model is meant and where models and settings lie: the same on every command."""

from pathlib import Path
from typing import Annotated

import typer


def _path(text: str) -> Path:
    """To Path the empty string is this folder; on a command line it is a variable that was not set."""
    if not text.strip():
        raise typer.BadParameter("it is empty; leave it out to have the default")
    return Path(text)


Model = Annotated[str | None, typer.Option(help="A stored model's name, or a path.")]

DataDir = Annotated[
    Path | None, typer.Option(parser=_path, metavar="PATH", help="Where models and keys lie.")
]

SettingsFile = Annotated[
    Path | None, typer.Option(parser=_path, metavar="PATH", help="A TOML file, see docs/settings.md.")
]
