"""Placeholders as a command line gives them, of which only what JSON can say gets any further.

What is no UTF-8 comes out of the system as lone surrogates: texts that no request and no tokenizer takes.
"""

import io
import json
import math
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
        given |= _object(json_file)
    for each in files:
        name, path = _pair(each, "--file")
        given[name] = _standard_input() if path == "-" else _text(Path(path))
    for each in values:
        name, text = _pair(each, "--set")
        given[name] = as_text(text, f"--set {name}")
    return given


def as_text(given: str, called: str) -> str:
    """An argument as it was given. Raises BadRequest where it is none."""
    try:
        given.encode()
    except UnicodeEncodeError:
        raise BadRequest(
            f"{_printable(called)} is not encoded in UTF-8: {_printable(given[:64])!r}"
        ) from None
    return given


def files_from(paths: Sequence[Path]) -> list[Part]:
    """Raises BadRequest."""
    return [Part(_text(path), as_text(str(path), "the name of a file")) for path in paths]


def _object(path: Path) -> dict[str, object]:
    """Raises BadRequest."""

    def number(written: str) -> float:
        value = float(written)
        if not math.isfinite(value):
            raise ValueError(f"{written[:64]} is no number that JSON can say")
        return value

    try:
        read = json.loads(_text(path), parse_float=number, parse_constant=number)
        json.dumps(read, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{path} has half of a character, as \\ud800 is, which UTF-8 cannot say") from None
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{path} is no JSON: {error}") from None
    if not isinstance(read, dict):
        raise BadRequest(f"{path} must hold one JSON object")
    return read


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise BadRequest(f"{option} is {text[:64]!r}, it must be NAME=VALUE")
    return as_text(name, f"the name of a {option}"), value


def _standard_input() -> str:
    """By its bytes: how Python would decode them is the locale's choice."""
    try:
        return io.TextIOWrapper(io.BytesIO(sys.stdin.buffer.read()), encoding="utf-8").read()
    except UnicodeDecodeError as error:
        raise BadRequest(f"standard input is not encoded in UTF-8: {error}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # what is no UTF-8, and what is no path
        raise BadRequest(f"{path} cannot be read as text: {error}") from None


def _printable(text: str) -> str:
    """With the bytes that are no UTF-8 as \\xe4."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
