"""`halfline complete`: one completion at a cursor, from a running server or with the model in this process."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from halfline.cli.exits import one_sentence


def complete(
    place: Annotated[
        str | None, typer.Argument(metavar="FILE:LINE:COL", help="Where the cursor is, both from 1.")
    ] = None,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read the text from standard input.")] = False,
    cursor: Annotated[str, typer.Option(help="What marks the cursor in that text.")] = "<CURSOR>",
    server: Annotated[str | None, typer.Option(help="URL of a running server to ask.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=0, help="Most new tokens.")] = None,
    model: Annotated[str | None, typer.Option(help="A stored model's name, or a path.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where models lie.")] = None,
    settings: Annotated[Path | None, typer.Option(help="A TOML file, see docs/settings.md.")] = None,
) -> None:
    """Complete the code at a cursor; the text goes to standard output, timings to standard error."""
    with one_sentence():
        # Start-up time: `halfline --help` needs neither HTTP nor a model.
        from halfline.cli.completing import complete_here, complete_there
        from halfline.cli.cursor import document_at, document_with_mark
        from halfline.errors import BadRequest
        from halfline.settings import load_settings

        if (place is None) != stdin:
            raise BadRequest(
                "say where the cursor is: either FILE:LINE:COL, or --stdin with a mark in the text"
            )
        document = document_at(place) if place is not None else document_with_mark(sys.stdin.read(), cursor)
        known = load_settings({"model": model, "data_dir": data_dir}, settings)
        wanted = known.api.editor_max_tokens if max_tokens is None else max_tokens
        if server is not None:
            complete_there(server, document, wanted)
        else:
            complete_here(known, document, wanted)
