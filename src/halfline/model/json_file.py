"""JSON files of model directories, which come from anywhere and may hold anything."""

import json
from pathlib import Path

from halfline.errors import DamagedModel

# A tokenizer.json of the largest vocabularies is some 30 MB.
_MAX_BYTES = 256 * 2**20


def read_json_object(path: Path) -> dict[str, object]:
    """Raises DamagedModel for a file that cannot be read or holds anything but one object."""
    return parse_json_object(str(path), read_bounded(path))


def read_bounded(path: Path) -> bytes:
    """Raises DamagedModel for a file that cannot be read, or is larger than any of its kind."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise DamagedModel(str(path), f"the file is larger than {_MAX_BYTES} bytes")
        return path.read_bytes()
    except OSError as error:
        raise DamagedModel(str(path), f"the file cannot be read: {error.strerror}") from error


def parse_json_object(source: str, text: bytes) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedModel(source, f"this is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DamagedModel(source, "this is JSON, but not an object")
    return value
