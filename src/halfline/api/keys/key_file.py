"""keys.json in the data directory: every key ever made, also those that are revoked.

A revoked key stays, because a file without any key would mean that nobody needs one. The file is replaced as a whole,
under a lock: a reader sees the old one or the new one, and of two writers at once neither loses what the other wrote.
"""

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from halfline.api.keys.key import Key
from halfline.errors import BadSettings

FILE_NAME = "keys.json"
MAX_KEYS = 4096
_MAX_BYTES = 4 << 20


class _Content(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    version: Literal[1]
    keys: list[Key]


def read_keys(path: Path) -> Mapping[str, Key]:
    """All keys by id; none where there is no file. Raises BadSettings for a file that is not as we write it: nobody
    can know whom it was meant to keep out.
    """
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise _unusable(path, "others than its owner may write it")
            content = file.read(_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _unusable(path, str(error.strerror)) from error
    if len(content) > _MAX_BYTES:
        raise _unusable(path, f"it has more than {_MAX_BYTES} bytes")
    try:
        keys = _Content.model_validate_json(content).keys
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"])
        raise _unusable(
            path, f"it is damaged{place and f' at {place}'}"
        ) from None  # its words show the content
    if not 0 < len(keys) <= MAX_KEYS:
        raise _unusable(path, f"it holds {len(keys)} keys, which is not between 1 and {MAX_KEYS}")
    by_id = {key.id: key for key in keys}
    if len(by_id) != len(keys):
        raise _unusable(path, "a key is in it twice")
    return by_id


def add_key(path: Path, key: Key) -> None:
    """Raises BadSettings when the file cannot be used, or is full of keys that are not revoked."""
    with _changing(path):
        keys = list(read_keys(path).values())
        if len(keys) >= MAX_KEYS:
            revoked = [each for each in keys if each.revoked_at is not None]
            if not revoked:
                raise BadSettings(
                    f"there are {len(keys)} keys already, and no more can be kept; revoke some first"
                )
            keys.remove(min(revoked, key=lambda each: each.revoked_at or 0))
        _write(path, [*keys, key])


def revoke_key(path: Path, key_id: str, now: float) -> Key:
    """The key, which is refused from now on. Raises BadSettings when there is none by that id."""
    with _changing(path):
        keys = dict(read_keys(path))
        if key_id not in keys:
            raise BadSettings(f"no key has the id {key_id!r}; `halfline key list` shows them")
        if keys[key_id].revoked_at is None:
            keys[key_id] = keys[key_id].model_copy(update={"revoked_at": int(now)})
            _write(path, list(keys.values()))
        return keys[key_id]


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Nobody else changes the file meanwhile. The lock has a file of its own: the other one is replaced."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)
    except OSError as error:
        raise _unusable(path, str(error.strerror)) from error


def _write(path: Path, keys: Sequence[Key]) -> None:
    content = _Content(version=1, keys=list(keys)).model_dump_json(indent=1, exclude_none=True)
    descriptor, written = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)  # 0600, by its contract
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(written, path)
    except BaseException:
        os.unlink(written)
        raise


def _unusable(path: Path, reason: str) -> BadSettings:
    return BadSettings(
        f"the key file {path} cannot be used: {reason}; mend it, or remove it and create new keys"
    )
