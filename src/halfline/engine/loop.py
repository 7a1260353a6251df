"""The engine's thread: takes in what arrives, runs step after step, hands out what came of each.

It alone touches the scheduler and the executor. Knows nothing of asyncio: what comes out goes to `deliver`.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from halfline.engine.greedy_runs import longest_run
from halfline.engine.options import EngineOptions
from halfline.engine.plan import Plan
from halfline.engine.runner import Runner
from halfline.engine.scheduler import Scheduler
from halfline.engine.sequence import Progress, Work
from halfline.engine.speculation.speculation import Speculation
from halfline.engine.stats import EngineStats
from halfline.errors import EngineFailed, InvariantBroken, NotNow
from halfline.kv.block_pool import BlockPool
from halfline.kv.block_table import BlockTable
from halfline.kv.disk_store import DiskStore
from halfline.kv.disk_tier import PATIENCE_S, DiskTier
from halfline.kv.disk_worker import DiskWorker
from halfline.kv.pins import Pins
from halfline.kv.prefix_index import PrefixIndex
from halfline.model.executor import BLOCK_TOKENS, Executor
from halfline.request import FinishReason, Priority
from halfline.telemetry.latencies import Latencies

_LAST_SAVES_S = 1.0  # how long a shutdown goes on saving blocks that never had their turn
_QUIET_S = 1.0  # idle for so long, the books are checked once: never in the way of a request


@dataclass(frozen=True, slots=True)
class _Submit:
    sequence_id: int
    work: Work
    now: float


@dataclass(frozen=True, slots=True)
class _Cancel:
    sequence_ids: frozenset[int]
    reason: FinishReason
    now: float


@dataclass(frozen=True, slots=True)
class _Close:
    """Take no more work; end once there is none left."""


@dataclass(frozen=True, slots=True)
class _Abort:
    """Cancel all there is."""


@dataclass(frozen=True, slots=True)
class _Wake:
    """There is news of the disk."""


_Message = _Submit | _Cancel | _Close | _Abort | _Wake


class EngineLoop:
    """`submit`, `cancel` and `close` may be called from any thread, the rest is the engine's own."""

    def __init__(
        self,
        executor: Executor,
        options: EngineOptions,
        clock: Callable[[], float],
        deliver: Callable[[list[Progress]], None],
        disk: DiskStore | None = None,
    ) -> None:
        self._tier = None if disk is None else DiskTier(disk, DiskWorker(disk, self._wake), executor)
        self._pool = BlockPool(executor.num_blocks)
        self._index = PrefixIndex() if self._tier is None else PrefixIndex(self._tier.note)
        drafter = Speculation(options.max_draft_tokens) if options.speculation == "auto" else None
        self._kv_format = executor.kv_format
        self._pins = Pins(self._pool, self._index, _max_pinned_blocks(executor, options))
        max_run = longest_run(executor, options)
        self._scheduler = Scheduler(
            self._pool, self._index, options, drafter, self._kv_format, self._pins, max_run
        )
        self._runner = Runner(executor)
        self._clock = clock
        self._deliver = deliver
        self._inbox: queue.SimpleQueue[_Message] = queue.SimpleQueue()
        self._guard = _StepGuard(executor)
        self._door = threading.Lock()  # nothing enters the inbox once `_closed_by` is set
        self._closed_by: Exception | None = None
        self._closing = False
        self._cancels = Latencies()
        self._compute_s = 0.0
        self._thread = threading.Thread(target=self._run, name="halfline-engine", daemon=True)
        self.failure: Exception | None = None
        self.stats: EngineStats = self._scheduler.stats()

    def start(self) -> None:
        self._thread.start()

    def submit(self, works: dict[int, Work]) -> None:
        """Let the sequences, by id, wait for their turn. Raises EngineFailed, or NotNow after `close`."""
        with self._door:
            if self._closed_by is not None:
                raise self._closed_by
            now = self._clock()
            for sequence_id, work in works.items():
                self._inbox.put(_Submit(sequence_id, work, now))
        self._guard.came({work.priority for work in works.values()})

    def cancel(self, sequence_ids: Iterable[int], reason: FinishReason = "cancelled") -> None:
        """End the sequences within one step, wherever they are; ended or unknown ones are passed over."""
        ids = frozenset(sequence_ids)
        # Before the message, with which the engine forgets them: what came behind it would stay for ever.
        self._guard.cancel(ids)
        self._inbox.put(_Cancel(ids, reason, self._clock()))

    def close(self, grace_s: float) -> None:
        """As `EngineHandle.close`."""
        with self._door:
            self._closed_by = self._closed_by or NotNow("the server is shutting down", 5.0)
        self._inbox.put(_Close())
        if self._thread.ident is None:
            self._thread.start()  # so that whatever was submitted gets its last event
        self._thread.join(grace_s)
        self._inbox.put(_Abort())
        self._guard.stop()
        self._thread.join()

    def _run(self) -> None:
        try:
            if self._tier is not None:
                self._tier.start()
            while not (self._closing and self._scheduler.idle):
                self._receive()
                self._step()
            self._pins.release_all()
            if self._tier is not None:
                self._tier.save_rest(self._clock, _LAST_SAVES_S)
        except Exception as error:
            self._fail(error)
        finally:
            if self._tier is not None:
                self._tier.close()

    def _receive(self) -> None:
        """Take in everything that has arrived; wait for something when there is nothing to run."""
        if not self._scheduler.can_run and not (self._tier is not None and self._tier.has_arrived):
            self._handle(self._wait())
        self._guard.all_heard()
        while not self._inbox.empty():
            self._handle(self._inbox.get())
        if self._tier is not None:
            for sequence_id in self._tier.land(self._clock()):
                self._scheduler.let_go(sequence_id)

    def _wait(self) -> _Message:
        """The next message, and until it comes what only an engine with nothing to run has time for."""
        self._save()
        self.stats = self._stats()
        if self._tier is not None and self._tier.fetching:
            try:
                return self._inbox.get(timeout=PATIENCE_S)
            except queue.Empty:
                return _Wake()
        try:
            return self._inbox.get(timeout=_QUIET_S)
        except queue.Empty:
            self._scheduler.check()
            return self._inbox.get()

    def _save(self) -> None:
        """Copy blocks out for the disk, one at a time, as long as nobody comes."""
        while self._tier is not None and self._tier.can_save and self._inbox.empty():
            self._tier.save_one()

    def _wake(self) -> None:
        self._inbox.put(_Wake())

    def _handle(self, message: _Message) -> None:
        match message:
            case _Submit(sequence_id, work, now):
                self._scheduler.add(sequence_id, work, now)
                self._fetch(sequence_id, work)
            case _Cancel(sequence_ids, reason, asked_at):
                self._drop(sequence_ids)
                now = self._clock()
                ended = self._scheduler.end(sequence_ids, reason, now)
                if ended:
                    self._cancels = self._cancels.observed(now - asked_at)
                self._hand_out(ended)
                self._guard.forget(sequence_ids)
            case _Close():
                self._closing = True
            case _Abort():
                self._drop(self._scheduler.sequence_ids)
                self._hand_out(self._scheduler.end(self._scheduler.sequence_ids, "cancelled", self._clock()))
            case _Wake():
                pass

    def _fetch(self, sequence_id: int, work: Work) -> None:
        """Let the sequence wait for what the disk has of its prompt; not one that has to compute all of it anyway."""
        if self._tier is not None and not work.reads_every_row:
            table = BlockTable(self._pool, self._index, work.namespace, self._kv_format)
            if self._tier.fetch(sequence_id, table, work.prompt_ids, self._clock()):
                self._scheduler.hold(sequence_id)

    def _drop(self, sequence_ids: Iterable[int]) -> None:
        if self._tier is not None:
            for sequence_id in sequence_ids:
                self._tier.drop(sequence_id)

    def _step(self) -> None:
        """Run one batch. Decide, compute, record: in this order, each in one place."""
        plan = self._scheduler.plan(self._clock())
        if not plan.chunks:
            if self._scheduler.can_run:
                raise InvariantBroken("sequences are left and none of them can run")
            return
        results = None
        if self._guard.enter(plan):
            started = time.thread_time()
            results = self._runner.run(plan)
            self._compute_s += time.thread_time() - started
            self._guard.leave()
        if results is None:
            self._scheduler.abandon()
        else:
            self._hand_out(self._scheduler.commit(plan, results, self._clock()))

    def _hand_out(self, progress: list[Progress]) -> None:
        self.stats = self._stats()
        if progress:
            self._deliver(progress)

    def _stats(self) -> EngineStats:
        stats = replace(self._scheduler.stats(), cancels=self._cancels, total_compute_s=self._compute_s)
        if self._tier is None:
            return stats
        return replace(
            stats, total_saved_blocks=self._tier.num_saved, total_fetched_blocks=self._tier.num_fetched
        )

    def _fail(self, error: Exception) -> None:
        """Tell everybody who waits, and whoever comes later."""
        with self._door:
            self.failure = error
            self._closed_by = EngineFailed(error)
        while not self._inbox.empty():
            message = self._inbox.get()
            if isinstance(message, _Submit):
                self._scheduler.add(message.sequence_id, message.work, message.now)
        self._hand_out(self._scheduler.give_up(self._clock()))


def _max_pinned_blocks(executor: Executor, options: EngineOptions) -> int:
    """What is over when one sequence has become as long as it may."""
    longest = executor.kv_format.num_blocks(executor.spec.max_context)
    return max(0, min(options.pinned_tokens // BLOCK_TOKENS, executor.num_blocks - longest))


class _StepGuard:
    """Stops the running step when it is in vain: a long chunk gives up between two layers.

    That is when everything in it was cancelled, and none of it is of use to others; or when it yields and somebody
    waits. One that goes on by itself stops for whoever comes, with the tokens that it has.
    """

    def __init__(self, executor: Executor) -> None:
        self._stop_flag = executor.stop_flag
        self._lock = threading.Lock()
        self._plan: Plan | None = None  # that runs
        self._cancelled: set[int] = set()
        self._unheard: set[Priority] = set()

    def cancel(self, sequence_ids: frozenset[int]) -> None:
        with self._lock:
            self._cancelled |= sequence_ids
            if self._plan is not None and self._unwanted(self._plan) and not self._plan.outlasts:
                self._stop_flag.set()

    def came(self, priorities: AbstractSet[Priority]) -> None:
        """There is work of these classes in the inbox."""
        with self._lock:
            self._unheard |= priorities
            if self._plan is not None and self._gives_way(self._plan):
                self._stop_flag.set()

    def all_heard(self) -> None:
        """The inbox is about to be emptied: whoever comes while that goes on is heard, or waits again."""
        with self._lock:
            self._unheard = set()

    def stop(self) -> None:
        """Stop whatever is running."""
        with self._lock:
            if self._plan is not None:
                self._stop_flag.set()

    def forget(self, sequence_ids: frozenset[int]) -> None:
        """They have ended."""
        with self._lock:
            self._cancelled -= sequence_ids

    def enter(self, plan: Plan) -> bool:
        """Whether the step is still worth running."""
        with self._lock:
            self._stop_flag.clear()
            if self._unwanted(plan) or self._gives_way(plan):
                return False
            self._plan = plan
            return True

    def leave(self) -> None:
        with self._lock:
            self._plan = None

    def _unwanted(self, plan: Plan) -> bool:
        return all(chunk.sequence.id in self._cancelled for chunk in plan.chunks)

    def _gives_way(self, plan: Plan) -> bool:
        """Whether it keeps those waiting who are not heard yet."""
        return bool(self._unheard) and (plan.goes_on or (plan.yields and "interactive" in self._unheard))
