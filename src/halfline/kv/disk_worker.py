"""The thread that reads and writes KV files, so that the engine's never waits for a disk."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from halfline.kv.block_file import BlockHeader
from halfline.kv.disk_store import DiskStore

MAX_WRITES = 32
"""Blocks that wait to be written at most: the memory they take."""

_PORTION = 8  # blocks handed over at once; the engine takes one portion between two steps
_LAST_WRITES_S = 5.0
_MAX_ARRIVED = 4  # portions that wait for the engine

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Fetch:
    """Blocks wanted from the disk, one behind the other: their names and tokens.

    `first_block` is the place of the first of them in its sequence. `dropped`: nobody wants the rest.
    """

    first_block: int
    wanted: list[tuple[bytes, bytes]]
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class Portion:
    """Some blocks of a fetch, from `first_block` on; `last`: no more will come."""

    fetch: Fetch
    first_block: int
    blocks: list[memoryview] = field(default_factory=list)
    last: bool = False


class DiskWorker:
    """All methods but `work` are the engine's. `wake` is called by the worker's thread: a portion is there, or room for
    writes.
    """

    def __init__(self, store: DiskStore, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake
        self._changed = threading.Condition()
        self._writes: deque[tuple[BlockHeader, memoryview]] = deque()
        self._reads: deque[Fetch] = deque()
        self._arrived: deque[Portion] = deque()
        self._closing = False
        self.broken = False  # a write failed: there will be no more
        self._thread = threading.Thread(target=self._run, name="halfline-kv-disk", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def takes_writes(self) -> bool:
        """Whether `write` may be called: not when the disk is behind, and never again after it failed once."""
        return len(self._writes) < MAX_WRITES and not self.broken

    def write(self, header: BlockHeader, data: memoryview) -> None:
        with self._changed:
            self._writes.append((header, data))
            self._changed.notify_all()

    def wait_for_writes(self, timeout_s: float) -> None:
        """Return when nothing waits to be written."""
        with self._changed:
            self._changed.wait_for(lambda: not self._writes, timeout_s)

    def read(self, fetch: Fetch) -> None:
        with self._changed:
            self._reads.append(fetch)
            self._changed.notify_all()

    @property
    def has_arrived(self) -> bool:
        return bool(self._arrived)

    def take(self) -> Portion | None:
        """The next portion that was read; None: there is none yet."""
        with self._changed:
            portion = self._arrived.popleft() if self._arrived else None
            self._changed.notify_all()
        return portion

    def close(self) -> None:
        """Write what waits to be written, then end the thread and give up the directory.

        A disk that does not answer keeps the thread, and the directory until the process ends, and not the caller.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(_LAST_WRITES_S)
        if not self._thread.is_alive():
            self._store.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._reads or self._writes or self._closing)
            if not self.work():
                return

    def work(self) -> bool:
        """Read what is wanted, else write one block; False: there is neither. Only for whoever runs the worker."""
        with self._changed:
            fetch = self._reads.popleft() if self._reads and not self._closing else None
            write = self._writes[0] if fetch is None and self._writes else None
        if fetch is not None:
            self._read(fetch)
        elif write is not None:
            self._write(*write)
            self._written()
        return fetch is not None or write is not None

    def _read(self, fetch: Fetch) -> None:
        first = fetch.first_block
        blocks: list[memoryview] = []
        for name, tokens in fetch.wanted:
            data = None if fetch.dropped else self._store.read(name, tokens)
            if data is None:
                break
            blocks.append(data)
            if len(blocks) == _PORTION:
                self._hand_over(Portion(fetch, first, blocks))
                first += _PORTION
                blocks = []
        self._hand_over(Portion(fetch, first, blocks, last=True))

    def _written(self) -> None:
        with self._changed:
            self._writes.popleft()  # only now: `takes_writes` counts the one being written
            self._changed.notify_all()
        if not self._writes:
            self._wake()

    def _hand_over(self, portion: Portion) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._arrived) < _MAX_ARRIVED or self._closing)
            self._arrived.append(portion)
        self._wake()

    def _write(self, header: BlockHeader, data: memoryview) -> None:
        if self.broken:
            return
        try:
            self._store.write(header, data)
        except OSError as error:  # a full disk, mostly; what is there can still be read
            self.broken = True
            _log.warning("KV blocks are no longer written to disk", extra={"error": str(error)})
