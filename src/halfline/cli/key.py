"""`halfline key`: who may ask the server, for what, how long and how often."""

import re
import sys
import time
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfline.cli.exits import one_sentence
from halfline.cli.where import DataDir, SettingsFile

if TYPE_CHECKING:
    from halfline.api.keys.key import Key

key_app = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys.")

_UNITS_S = {"m": 60, "h": 3600, "d": 86_400}

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # Unicode's categories of controls, formats and line ends

_OPTIONS = {"valid_s": "expires", "per_minute": "rate", "at_once": "concurrency"}  # by what a key calls them


@key_app.command()
def create(
    name: Annotated[str, typer.Option(help="Whose it is; shown in the list.")] = "",
    tenant: Annotated[
        str | None,
        typer.Option(help="Whose KV, answers and receipts it shares; a tenant of its own unless said."),
    ] = None,
    scope: Annotated[str, typer.Option(help="complete, or admin: /metrics too.")] = "complete",
    expires: Annotated[str | None, typer.Option(help="After 90d, 12h or 30m; never unless said.")] = None,
    rate: Annotated[
        str | None, typer.Option(help="Most requests a minute, 120/min; any unless said.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Most requests at once; any number unless said.")
    ] = None,
    data_dir: DataDir = None,
    settings: SettingsFile = None,
) -> None:
    """Make a key and print it, which is the only time it can be seen. A running server knows it a second later."""
    with one_sentence():
        from pydantic import ValidationError  # start-up time, here and below

        from halfline.api.keys.key import new_key
        from halfline.api.keys.key_file import add_key
        from halfline.errors import BadSettings

        options = {
            "name": _one_line(name),
            "tenant": tenant,
            "scope": scope,
            "valid_s": None if expires is None else _seconds(expires),
            "per_minute": None if rate is None else _per_minute(rate),
            "at_once": concurrency,
        }
        try:
            key, sent = new_key(time.time(), **options)  # type: ignore[arg-type]  # checked by the key
        except ValidationError as error:
            first = error.errors()[0]
            option = _OPTIONS.get(str(first["loc"][0]), str(first["loc"][0]))
            raise BadSettings(f"--{option} is {first['input']!r}: {first['msg']}") from None
        add_key(_file(data_dir, settings), key)
        print(sent)
        print(
            f"key {key.id} of the tenant {key.tenant}: it is not kept and cannot be shown again;"
            " from now on every request to this server needs a key",
            file=sys.stderr,
        )


@key_app.command(name="list")
def list_keys(data_dir: DataDir = None, settings: SettingsFile = None) -> None:
    """All keys that were made, without the keys themselves."""
    with one_sentence():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        from halfline.api.keys.key_file import read_keys

        keys = read_keys(_file(data_dir, settings))
        if not keys:
            print("no keys: whoever reaches the server may use it")
            return
        table = Table("id", "name", "tenant", "scope", "created", "expires", "a minute", "at once", "state")
        for key in keys.values():
            table.add_row(*(Text(cell) for cell in _row(key)))
        Console(width=None if sys.stdout.isatty() else 200).print(table)


@key_app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As the list shows it.", show_default=False)],
    data_dir: DataDir = None,
    settings: SettingsFile = None,
) -> None:
    """Refuse a key from now on; a running server does so within a second. What runs for it already runs to its end."""
    with one_sentence():
        from halfline.api.keys.key_file import revoke_key

        key = revoke_key(_file(data_dir, settings), key_id, time.time())
        print(f"revoked {key.id}")


def _file(data_dir: Path | None, settings: Path | None) -> Path:
    from halfline.api.keys.key_file import FILE_NAME  # start-up time
    from halfline.settings import load_settings

    return load_settings({"data_dir": data_dir}, settings).data_dir / FILE_NAME


def _one_line(name: str) -> str:
    """A name is printed as it is, in a table."""
    if any(unicodedata.category(character) in _UNSEEN for character in name):
        raise typer.BadParameter(
            f"{name!r} is no name: it holds a line's end or another control character", param_hint="--name"
        )
    return name


def _seconds(text: str) -> int:
    found = re.fullmatch(r"([1-9]\d{0,5})([mhd])", text, re.ASCII)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no time; write 90d, 12h or 30m", param_hint="--expires")
    return int(found[1]) * _UNITS_S[found[2]]


def _per_minute(text: str) -> int:
    found = re.fullmatch(r"([1-9]\d{0,5})(/min)?", text, re.ASCII)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no rate; write 120/min", param_hint="--rate")
    return int(found[1])


def _row(key: "Key") -> tuple[str, ...]:
    return (
        key.id,
        key.name,
        key.tenant,
        key.scope,
        _day(key.created_at),
        "never" if key.expires_at is None else _day(key.expires_at),
        "any" if key.per_minute is None else str(key.per_minute),
        "any" if key.at_once is None else str(key.at_once),
        key.state(time.time()),
    )


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
