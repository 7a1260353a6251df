"""The entry point: one typer application, one file per command."""

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False)
