"""The options that say where models and settings lie: the same two on every command that needs either."""

from pathlib import Path
from typing import Annotated

import typer

DataDir = Annotated[Path | None, typer.Option(help="Where models lie.")]

SettingsFile = Annotated[Path | None, typer.Option(help="A TOML file, see docs/settings.md.")]
