"""docs/settings.md, written from the options' own docstrings, so that page and code cannot disagree."""

import ast
import inspect
import json
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, is_dataclass
from dataclasses import fields as dataclass_fields
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import ByteSize, SecretStr

from halfline.settings import Settings, environment_name

_HEAD = """\
# Settings

<!-- Written by `halfline settings doc > docs/settings.md`; edit the options.py files instead. -->

Settings come from a TOML file, the environment and the command line. A flag wins over the environment, the
environment over the file, the file over the default. The file is `settings.toml` in the data directory, or the one
named by `--settings FILE`. A name that is not on this page is an error.

    port = 8118             # HALFLINE_PORT=8118

    [engine]
    max_waiting = 64        # HALFLINE_ENGINE__MAX_WAITING=64

    [context]
    compression = ["comments", "bodies"]    # HALFLINE_CONTEXT__COMPRESSION=comments,bodies

In the environment a list's entries are separated by commas, or the list is written in JSON, as a table is:
`HALFLINE_CONTEXT__COMPRESSION='["comments", "bodies"]'`.
"""


def settings_page() -> str:
    """The whole page, ending in one line break. Raises KeyError for a setting without a docstring."""
    tables: dict[str, Any] = {
        name: field.annotation
        for name, field in Settings.model_fields.items()
        if is_dataclass(field.annotation)
    }
    meanings = _attribute_docs(Settings)
    page = _HEAD + "\n## Top level\n\n"
    for name, field in Settings.model_fields.items():
        if name not in tables:
            default = None if field.default_factory is not None else field.default
            page += _entry(name, field.annotation, default, meanings[name])
    for table, options in tables.items():
        meanings = _attribute_docs(options)
        page += f"\n## [{table}]\n\n"
        for inner in dataclass_fields(options):
            default = inner.default if inner.default_factory is MISSING else inner.default_factory()
            page += _entry(f"{table}.{inner.name}", inner.type, default, meanings[inner.name])
    return page


def _entry(key: str, annotation: Any, default: object, meaning: str) -> str:
    shown = _shown(annotation, default)
    return f"- **`{key}`** · {_type_name(annotation)} · {shown} · `{environment_name(key)}`\n  {meaning}\n"


def _shown(annotation: Any, default: object) -> str:
    """A default, as it would be written or in words."""
    if default is not None:
        return f"`{_toml(default)}`"
    return "none" if type(None) in get_args(annotation) else "chosen at start"


def _attribute_docs(options: type) -> Mapping[str, str]:
    """The string under each annotated field. Python drops these, so the source is read again."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(options))).body
    assert isinstance(body, ast.ClassDef)
    docs = {}
    for field, under in pairwise(body.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match under:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    docs[field.target.id] = " ".join(text.split())
    return docs


def _type_name(annotation: Any) -> str:
    """What to write, in a user's words."""
    choices = [choice for choice in get_args(annotation) if choice is not type(None)]
    if get_origin(annotation) is Literal:
        return " or ".join(f"`{choice}`" for choice in choices)
    if get_origin(annotation) is tuple:
        return "list of texts"
    if get_origin(annotation) is Mapping:
        return "tables by name"
    if len(choices) == 1:
        return _type_name(choices[0])
    return _TYPE_NAMES[annotation]


_TYPE_NAMES: Mapping[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    SecretStr: "text",
    Path: "path",
    ByteSize: "size, such as `512MiB`",
}


def _toml(value: object) -> str:
    """A default as it would stand in the file."""
    return json.dumps(list(value) if isinstance(value, tuple) else value)
