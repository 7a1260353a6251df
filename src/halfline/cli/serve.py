"""`halfline serve`: the model behind HTTP, until told to stop."""

from typing import Annotated

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.interrupts import imports
from halfline.cli.start_up import hurry
from halfline.cli.where import DataDir, Model, SettingsFile


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; 127.0.0.1 unless said.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 8117 unless said, 0 takes any.")
    ] = None,
    model: Model = None,
    threads: Annotated[int | None, typer.Option(help="Threads that compute; all cores unless said.")] = None,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
    allow_unproved: Annotated[
        bool | None,
        typer.Option(
            "--allow-unproved", help="Serve although settings that may change answers passed no gate."
        ),
    ] = None,
    insecure_open: Annotated[
        bool | None,
        typer.Option("--insecure-open", help="Listen beyond this machine although no keys are asked for."),
    ] = None,
) -> None:
    """Serve completions over HTTP."""
    flags = {
        "host": host,
        "port": port,
        "model": model,
        "threads": threads,
        "data_dir": data_dir,
        "allow_unproved": allow_unproved,
        "insecure_open": insecure_open,
    }
    with one_sentence():
        hurry()
        with imports():  # start-up time: `halfline --help` needs neither HTTP nor a model
            from halfline.cli.serving import run_server
            from halfline.settings import load_settings

        run_server(load_settings(flags, settings))
