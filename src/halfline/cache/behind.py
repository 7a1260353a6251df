"""A slow tier and the one thread that touches it: whoever asks or puts never waits for a disk or a network.

What is asked for comes first, what is put is written a moment later, many at once; a little later where much is asked.
Where more is put than can be written, the oldest is let go: it is only a cache. One that stands still (a disk that
hangs, a lock that another process holds) is not asked until it goes on.
"""

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Protocol

from halfline.cache.memory import Kept
from halfline.errors import HalflineError
from halfline.telemetry.log import fields

PATIENCE_S = 1.0
"""Nobody waits for longer."""

_MAX_PUTS = 1 << 14
_MAX_PUT_BYTES = 1 << 26
_CLOSING = 10  # times its patience a store waits for what is left to be written
_IDLE_S = 1.0  # between two looks at what other processes have put
_MAX_PUT_OFF = 8  # turns in which what is put waits for what is asked
_GATHER_S = 0.02  # a transaction costs as much for one answer as for many

_log = logging.getLogger(__name__)


class SlowTier(Protocol):
    """Values by key somewhere else. Called by one thread, but for `may_hold`, `name` and `num_failures`."""

    @property
    def name(self) -> str: ...
    @property
    def num_failures(self) -> int: ...
    def open(self) -> None: ...
    def close(self) -> None: ...
    def may_hold(self, key: bytes) -> bool: ...
    def refresh(self) -> None:
        """Learn what other processes have put."""

    def newest(self, max_bytes: int) -> list[tuple[bytes, Kept]]:
        """What was used last, the latest first."""

    def get(self, key: bytes, now: float) -> Kept | None: ...
    def put(self, entries: Collection[tuple[bytes, Kept]], used: Collection[bytes], now: float) -> None: ...
    def check(self) -> None: ...


class Behind:
    """`warm` is called once, by the tier's thread, with what it used last, up to `warm_bytes`."""

    def __init__(
        self,
        tier: SlowTier,
        warm: Callable[[list[tuple[bytes, Kept]]], None] = lambda entries: None,
        warm_bytes: int = 0,
        clock: Callable[[], float] = time.time,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.tier = tier
        self._patience_s = patience_s
        self._busy_since: float | None = None
        self._warm = warm
        self._warm_bytes = warm_bytes
        self._clock = clock
        self._gets: list[tuple[bytes, Callable[[Kept | None], None]]] = []
        self._puts: OrderedDict[bytes, Kept] = OrderedDict()
        self._put_bytes = 0
        self._used: set[bytes] = set()
        self._writing = False
        self._closed = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"cache-{tier.name}", daemon=True)
        self.num_let_go = 0
        self.num_late = 0

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Write what is left, end the thread. Blocks, but not for a tier that stands still."""
        with self._news:
            self._closed = True
            self._news.notify_all()
        if self._thread.is_alive():
            self._thread.join(_CLOSING * self._patience_s)
            if self._thread.is_alive():
                _log.warning("a cache is left as it is", extra=fields(tier=self.tier.name))

    def put(self, key: bytes, kept: Kept) -> None:
        with self._news:
            if self._closed:  # nobody is left to write it
                return
            older = self._puts.pop(key, None)
            self._puts[key] = kept
            self._put_bytes += len(kept.value) - (0 if older is None else len(older.value))
            while len(self._puts) > _MAX_PUTS or self._put_bytes > _MAX_PUT_BYTES:
                self._put_bytes -= len(self._puts.popitem(last=False)[1].value)
                self.num_let_go += 1
            self._news.notify_all()

    def used(self, key: bytes) -> None:
        """It was found elsewhere, and should be kept here too. Written together with what is put."""
        with self._news:
            if len(self._used) < _MAX_PUTS:
                self._used.add(key)

    def may_hold(self, key: bytes) -> bool:
        """Whether it is worth asking."""
        since = self._busy_since
        stands_still = since is not None and time.monotonic() - since > self._patience_s
        return not stands_still and self.tier.may_hold(key)

    async def get(self, key: bytes) -> Kept | None:
        """None, too, when that takes longer than anybody should wait."""
        event_loop = asyncio.get_running_loop()
        found: asyncio.Future[Kept | None] = event_loop.create_future()

        def tell(kept: Kept | None) -> None:
            if not found.done():
                found.set_result(kept)

        def answer(kept: Kept | None) -> None:
            try:
                event_loop.call_soon_threadsafe(tell, kept)
            except RuntimeError:  # the event loop is closed, nobody waits any more
                return

        self.ask(key, answer)
        try:
            async with asyncio.timeout(self._patience_s):
                return await found
        except TimeoutError:
            self.num_late += 1
            return None

    def ask(self, key: bytes, answer: Callable[[Kept | None], None]) -> None:
        """`answer` is called by the tier's thread, or here when that has ended."""
        with self._news:
            if not self._closed:
                self._gets.append((key, answer))
                self._news.notify_all()
                return
        answer(None)

    def flush(self) -> None:
        """Wait until what was put so far is written."""
        with self._news:
            self._news.wait_for(lambda: not self._puts and not self._writing)

    def _run(self) -> None:
        try:
            self.tier.open()
            self._warm(self.tier.newest(self._warm_bytes))
            self._serve()
        except HalflineError as error:  # an address or an extra that is not there
            _log.error("a cache is not used", extra=fields(tier=self.tier.name, reason=str(error)))
        except Exception:  # a mistake of ours; who asked is answered, and the rest goes on without the tier
            _log.exception("a cache is not used any more", extra=fields(tier=self.tier.name))
        finally:
            with self._news:
                self._closed = True
                gets, self._gets = self._gets, []
                self._puts.clear()
                self._writing = False
                self._news.notify_all()
            for _, answer in gets:
                answer(None)
            self.tier.close()

    def _serve(self) -> None:
        looked_at = time.monotonic()
        num_put_off = 0
        self.tier.refresh()
        while True:
            with self._news:
                self._news.wait_for(lambda: self._gets or self._puts or self._closed, _IDLE_S)
                gets, self._gets = self._gets, []
                if self._puts and not gets and not self._closed:
                    self._news.wait_for(lambda: self._gets or self._closed, _GATHER_S)
                    gets, self._gets = self._gets, []
                if self._closed and not gets and not self._puts:
                    return
                num_put_off = num_put_off + 1 if gets and self._puts else 0
                puts = list(self._puts.items()) if not gets or num_put_off > _MAX_PUT_OFF else []
                used: set[bytes] = set()
                if puts:
                    self._puts.clear()
                    self._put_bytes = num_put_off = 0
                    used, self._used = self._used, set()
                self._writing = bool(puts)
            self._busy_since = time.monotonic()
            self._answer(gets)
            if puts:
                self.tier.put(puts, used, self._clock())
                with self._news:
                    self._writing = False
                    self._news.notify_all()
            if puts or time.monotonic() - looked_at >= _IDLE_S:
                self.tier.refresh()
                looked_at = time.monotonic()
            self._busy_since = None

    def _answer(self, gets: list[tuple[bytes, Callable[[Kept | None], None]]]) -> None:
        """Everybody who asked, also where the tier raises what it should not."""
        num_answered = 0
        try:
            for key, answer in gets:
                answer(self.tier.get(key, self._clock()))
                num_answered += 1
        finally:
            for _, answer in gets[num_answered:]:
                answer(None)
