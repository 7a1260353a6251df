"""`halfline complete`: one completion at a cursor, from a running server or with the model in this process."""

import sys
from typing import Annotated

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.interrupts import imports
from halfline.cli.start_up import hurry
from halfline.cli.where import DataDir, Model, SettingsFile


def complete(
    place: Annotated[
        str | None, typer.Argument(metavar="FILE:LINE:COL", help="Where the cursor is, both from 1.")
    ] = None,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read the text from standard input.")] = False,
    cursor: Annotated[str, typer.Option(help="What marks the cursor in that text.")] = "<CURSOR>",
    server: Annotated[str | None, typer.Option(help="URL of a running server to ask.")] = None,
    key: Annotated[
        str | None, typer.Option(help="The key to ask it with; HALFLINE_API_KEY or `api_key` unless said.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(min=0, help="Most new tokens.")] = None,
    profile: Annotated[
        str | None, typer.Option(help="Where what is not said comes from, such as high-quality.")
    ] = None,
    model: Model = None,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
) -> None:
    """Complete the code at a cursor; the text goes to standard output, timings to standard error."""
    with one_sentence():
        hurry()
        with imports():  # start-up time: `halfline --help` needs neither HTTP nor a model
            from halfline.cli.cursor import document_at, document_with_mark
            from halfline.errors import BadRequest
            from halfline.settings import load_settings

        if (place is None) != stdin:
            raise BadRequest(
                "say where the cursor is: either FILE:LINE:COL, or --stdin with a mark in the text"
            )
        document = document_at(place) if place is not None else document_with_mark(sys.stdin.read(), cursor)
        known = load_settings({"model": model, "api_key": key, "data_dir": data_dir}, settings)
        if server is not None:
            with imports():
                from halfline.cli.asking import complete_there  # start-up time: a client needs no model,

            sent = known.api_key.get_secret_value() if known.api_key else None
            complete_there(server, document, max_tokens, profile, sent)
        else:
            with imports():
                from halfline.cli.completing import complete_here  # and a model no HTTP

            complete_here(known, document, max_tokens, profile)
