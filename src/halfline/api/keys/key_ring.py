"""The keys as a running server knows them: it notices changes of their file, and never opens up.

Once keys were wanted they are wanted until the server ends, also when their file goes away; while the file cannot be
used nobody is let in.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from halfline.api.keys.key import Key, id_of, is_it
from halfline.api.keys.key_file import read_keys
from halfline.errors import BadSettings, KeyRefused, KeysUnusable
from halfline.telemetry.log import fields

_log = logging.getLogger(__name__)

_LOOK_AGAIN_S = 1.0


class KeyRing:
    """Lives on the event loop. Raises BadSettings when the file cannot be used from the first."""

    def __init__(
        self,
        path: Path | None,
        *,
        required: bool = False,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`path` None: there are no keys. `required`: one is wanted even while there are none. `now` is in seconds
        since 1970, like the keys' times.
        """
        self._path = path
        self._clock = clock
        self._now = now
        self._version = _version(path)
        self._keys: Mapping[str, Key] = {} if path is None else read_keys(path)
        self._usable = True
        self._required = required or bool(self._keys)
        self._looked_at = clock()

    @property
    def required(self) -> bool:
        """Whether whoever asks for something has to have a key."""
        self._look()
        return self._required

    @property
    def tenants(self) -> frozenset[str]:
        """Whose keys are valid."""
        self._look()
        now = self._now()
        return frozenset(key.tenant for key in self._keys.values() if key.state(now) == "valid")

    def find(self, sent: str) -> Key:
        """The key that was sent. Raises KeyRefused when it is none, revoked or expired, KeysUnusable while the file
        does not say.
        """
        self._look()
        if not self._usable:
            raise KeysUnusable()
        claimed = id_of(sent)
        key = None if claimed is None else self._keys.get(claimed)
        if not is_it(sent, key) or key is None:
            raise KeyRefused("this API key is not known here")
        state = key.state(self._now())
        if state != "valid":
            raise KeyRefused(f"the API key {key.id} is {state}")
        return key

    def _look(self) -> None:
        """Read the file again if it changed; at most once a second is it looked at."""
        if self._path is None or self._clock() - self._looked_at < _LOOK_AGAIN_S:
            return
        self._looked_at = self._clock()
        version = _version(self._path)
        if version == self._version:
            return
        self._version = version
        try:
            self._keys = read_keys(self._path)
            self._usable = True
            self._required = self._required or bool(self._keys)
            _log.info("keys read", extra=fields(keys=len(self._keys)))
        except BadSettings as error:
            _log.error("keys unusable", extra=fields(reason=str(error)))
            self._usable = False
            self._required = True


def _version(path: Path | None) -> tuple[int, ...] | None:
    """What is another one after every change; None: there is no file."""
    if path is None:
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
