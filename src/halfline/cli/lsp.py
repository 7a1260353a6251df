"""`halfline lsp`: the language server an editor starts, in front of a running server."""

import getpass
import importlib.util
from typing import Annotated

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.where import DataDir, SettingsFile
from halfline.errors import BadSettings


def lsp(
    server: Annotated[str, typer.Option(help="URL of the running server to ask.")] = "http://127.0.0.1:8117",
    key: Annotated[
        str | None, typer.Option(help="The key to ask it with; HALFLINE_API_KEY or `api_key` unless said.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="Whose cursor it is; who is logged in unless said.")
    ] = None,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
) -> None:
    """Speak the Language Server Protocol on standard input and output: inline and ordinary completions."""
    with one_sentence():
        if importlib.util.find_spec("pygls") is None:
            raise BadSettings(
                "the language server needs one more package: `.venv/bin/pip install -e '.[lsp]'`"
            )
        # An optional dependency, and a third of a second to import.
        from halfline.lsp.language_server import language_server
        from halfline.lsp.remote import RemoteServer
        from halfline.settings import load_settings

        known = load_settings({"api_key": key, "data_dir": data_dir}, settings).api_key
        sent = known.get_secret_value() if known else None
        language_server(RemoteServer(server, sent, user or getpass.getuser())).start_io()
