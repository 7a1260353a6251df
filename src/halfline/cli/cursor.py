"""Where a user of the command line puts the cursor: FILE:LINE:COL, or a mark in a text."""

from pathlib import Path

from halfline.errors import BadRequest
from halfline.request import Document


def document_at(place: str) -> Document:
    """The file of FILE:LINE:COL with the cursor before column COL of line LINE.

    Both count from 1, columns in characters; the column behind a line's last character and the empty line
    behind a final line break are places too. Raises BadRequest for any other place.
    """
    name, line, column = _split(place)
    text = _read(Path(name))
    starts = [0, *(offset + 1 for offset, character in enumerate(text) if character == "\n")]
    if not 1 <= line <= len(starts):
        raise BadRequest(f"{name} has {len(starts)} lines, there is no line {line}")
    start = starts[line - 1]
    length = len(text[start:].split("\n", 1)[0].removesuffix("\r"))
    if not 1 <= column <= length + 1:
        raise BadRequest(f"line {line} of {name} ends at column {length + 1}, there is no column {column}")
    cursor = start + column - 1
    return Document(text[:cursor], text[cursor:], name)


def document_with_mark(text: str, mark: str) -> Document:
    """The text with the cursor where `mark` stands, which is taken out. Raises BadRequest unless it is there once."""
    if not mark:
        raise BadRequest("the cursor's mark is empty")
    if text.count(mark) != 1:
        raise BadRequest(f"the text holds the cursor's mark {mark!r} {text.count(mark)} times, not once")
    prefix, suffix = text.split(mark)
    return Document(prefix, suffix)


def _split(place: str) -> tuple[str, int, int]:
    parts = place.rsplit(":", 2)
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts[1:]):
        raise BadRequest(f"{place!r} is not a place; write FILE:LINE:COL, such as main.py:10:5")
    # Nobody has a file of 10^9 lines, and int() refuses endless digits with a traceback.
    return parts[0], int(parts[1][:10]), int(parts[2][:10])


def _read(path: Path) -> str:
    try:
        # Line breaks stay what they are: the server completes CRLF files too.
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}") from error
