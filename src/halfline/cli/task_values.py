"""Placeholders as a command line gives them."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from halfline.errors import BadRequest
from halfline.request import Part


def placeholders_from(
    values: Sequence[str], files: Sequence[str], json_file: Path | None
) -> Mapping[str, object]:
    """NAME=TEXT, NAME=PATH and one JSON object, the later over the earlier: what is said by hand wins.

    Raises BadRequest.
    """
    given: dict[str, object] = {}
    if json_file is not None:
        try:
            read = json.loads(_text(json_file))
        except ValueError as error:
            raise BadRequest(f"{json_file} is no JSON: {error}") from None
        if not isinstance(read, dict):
            raise BadRequest(f"{json_file} must hold one JSON object")
        given |= read
    for each in files:
        name, path = _pair(each, "--file")
        given[name] = sys.stdin.read() if path == "-" else _text(Path(path))
    for each in values:
        name, text = _pair(each, "--set")
        given[name] = text
    return given


def files_from(paths: Sequence[Path]) -> list[Part]:
    """Raises BadRequest."""
    return [Part(_text(path), str(path)) for path in paths]


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise BadRequest(f"{option} is {text[:64]!r}, it must be NAME=VALUE")
    return name, value


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{path} cannot be read as text: {error}") from None
