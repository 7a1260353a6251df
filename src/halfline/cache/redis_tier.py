"""Values by key in Redis, which several servers share. Needs the extra `redis`.

How much is kept there is Redis's own to say (`maxmemory`). A Redis that is slow or gone costs at most `TIMEOUT_S`, and
is then left alone for `PAUSE_S`. What it gives back carries a digest, so nothing that another wrote there is believed.
For one thread at a time.
"""

import logging
import time
from collections.abc import Callable, Collection
from importlib.util import find_spec
from typing import TYPE_CHECKING

from halfline.cache.memory import Kept
from halfline.cache.seal import sealed_with_time, unsealed_with_time
from halfline.errors import BadSettings, MissingExtra
from halfline.telemetry.log import fields

if TYPE_CHECKING:
    from redis import Redis

TIMEOUT_S = 0.1
PAUSE_S = 1.0
_PREFIX = b"halfline:1:"

_log = logging.getLogger(__name__)


class RedisTier:
    """Nothing here raises for what Redis does; only `open` does, for an address that is none."""

    name = "redis"

    def __init__(self, url: str, max_age_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises MissingExtra."""
        if find_spec("redis") is None:
            raise MissingExtra("sharing answers through Redis", "redis")
        self._url = url
        self._max_age_s = max_age_s
        self._clock = clock
        self._client: Redis | None = None
        self._silent_until = float("-inf")
        self.num_failures = 0

    def open(self) -> None:
        """Raises BadSettings."""
        from redis import Redis  # optional dependency
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        try:
            self._client = Redis.from_url(
                self._url,
                socket_timeout=TIMEOUT_S,
                socket_connect_timeout=TIMEOUT_S,
                retry=Retry(NoBackoff(), 0),
            )
        except ValueError as error:
            raise BadSettings(f"cache.redis_url is {self._url}: {error}") from error

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def may_hold(self, key: bytes) -> bool:
        """Whether it is worth asking. From any thread."""
        return self._clock() >= self._silent_until

    def refresh(self) -> None:
        """Nothing is known of its keys."""

    def newest(self, max_bytes: int) -> list[tuple[bytes, Kept]]:
        """Nobody knows."""
        return []

    def get(self, key: bytes, now: float) -> Kept | None:
        """None when it is not there, too old, not whole, or Redis does not answer."""
        data = self._ask(lambda client: client.get(_PREFIX + key))
        if not isinstance(data, bytes):
            return None
        kept = unsealed_with_time(key, data)
        return None if kept is None or kept.too_old(now, self._max_age_s) else kept

    def put(self, entries: Collection[tuple[bytes, Kept]], used: Collection[bytes], now: float) -> None:
        """Keep the entries. What was used Redis notices itself."""

        def send(client: "Redis") -> None:
            with client.pipeline(transaction=False) as pipeline:
                for key, kept in entries:
                    age_ms = max(1, int((kept.stored_at + self._max_age_s - now) * 1e3))
                    pipeline.set(_PREFIX + key, sealed_with_time(key, kept), px=age_ms)
                pipeline.execute()

        if entries:
            self._ask(send)

    def check(self) -> None:
        """What Redis holds is its own."""

    def _ask(self, question: "Callable[[Redis], object]") -> object | None:
        """None when there is no answer."""
        if self._client is None or not self.may_hold(b""):
            return None
        try:
            return question(self._client)
        except Exception as error:  # what speaks something else there confuses the client in many ways
            self.num_failures += 1
            self._silent_until = self._clock() + PAUSE_S
            if self.num_failures == 1:  # one line, not one for every answer
                _log.warning("Redis does not answer", extra=fields(reason=str(error)))
            return None
