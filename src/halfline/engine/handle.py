"""How async code touches the engine: submit, follow, cancel. The only door."""

import asyncio
import itertools
import math
import threading
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence

from halfline.engine.loop import EngineLoop
from halfline.engine.options import EngineOptions
from halfline.engine.queue_speed import QueueSpeed
from halfline.engine.sequence import Outcome, Progress, Work
from halfline.engine.stats import EngineStats
from halfline.errors import Overloaded, PromptTooLong
from halfline.kv.disk_store import DiskStore
from halfline.model.executor import Executor
from halfline.request import FinishReason


class EngineHandle:
    """Starts the engine's thread and talks to it. Everything but `submit` may be called from any thread."""

    def __init__(
        self,
        executor: Executor,
        options: EngineOptions,
        clock: Callable[[], float] = time.perf_counter,
        disk: DiskStore | None = None,
    ) -> None:
        self._options = options
        self._spec = executor.spec
        self._num_blocks = executor.num_blocks
        self.kv_format = executor.kv_format
        self._ids = itertools.count()
        self._clock = clock
        self._generations: dict[int, Generation] = {}  # by the id of each sequence that has not ended
        self._idle_ids: dict[int, None] = {}  # of these, the idle ones that were not shed, earliest first
        self._shed_ids: set[int] = set()  # of these, those that were told to end
        self._speed = QueueSpeed()
        self._crowd = (
            threading.Lock()
        )  # the four above: the engine's thread takes out what event loops put in
        self._loop = EngineLoop(executor, options, clock, self._deliver, disk)

    def start(self) -> None:
        """Start the thread; submitting before is allowed, nothing runs until then."""
        self._loop.start()

    def close(self, grace_s: float) -> None:
        """Refuse new work, let the running finish for `grace_s`, cancel the rest, end the thread.

        Blocks until the thread has ended: async code calls it through `asyncio.to_thread`. Every sequence gets its
        last event.
        """
        self._loop.close(grace_s)

    @property
    def failure(self) -> Exception | None:
        """What ended the engine's thread; None while it is well (for GET /health)."""
        return self._loop.failure

    @property
    def speculates(self) -> bool:
        """Whether texts to guess from are of any use."""
        return self._options.speculation == "auto"

    @property
    def max_sequence_tokens(self) -> int:
        """Most tokens, prompt and output together, that the model and the KV arena can hold for one sequence."""
        return min(self._spec.max_context, self.kv_format.num_tokens(self._num_blocks))

    def stats(self) -> EngineStats:
        """The numbers after the latest step; costs nothing."""
        return self._loop.stats

    def submit(
        self, works: Sequence[Work], listen: Callable[[int, Progress], None] | None = None
    ) -> "Generation":
        """Start all of the sequences, or none; must be called on the event loop that will follow them.

        `listen` is called there with each position and progress the moment it arrives, whoever else follows.
        Raises PromptTooLong, Overloaded, NotNow while shutting down, EngineFailed.
        """
        for work in works:
            if work.max_tokens > self.max_sequence_tokens:
                raise PromptTooLong(len(work.prompt_ids), work.max_new_tokens, self.max_sequence_tokens)
        by_id = {next(self._ids): work for work in works}
        generation = Generation(asyncio.get_running_loop(), list(by_id), self._loop, listen)
        with self._crowd:
            shed_ids = self._make_way(any(work.priority == "idle" for work in works))
            self._generations |= dict.fromkeys(by_id, generation)
            self._idle_ids |= {each: None for each, work in by_id.items() if work.priority == "idle"}
        if shed_ids:
            self._loop.cancel(shed_ids, "shed")
        try:
            self._loop.submit(by_id)
        except BaseException:
            with self._crowd:
                for sequence_id in by_id:
                    self._forget(sequence_id)
            raise
        return generation

    def overloaded(self) -> Overloaded:
        """What to tell somebody whose idle work was shed."""
        num_waiting = max(self._num_waiting, 0)
        return Overloaded(num_waiting, self._options.max_waiting // 4, self._speed.wait_s(num_waiting))

    @property
    def crowded(self) -> bool:
        """Whether so many wait that each should ask for less."""
        return self._num_waiting >= self._options.max_waiting / 2

    @property
    def _num_waiting(self) -> int:
        """Sequences beyond those that run at once."""
        return len(self._generations) - len(self._shed_ids) - self._options.max_num_seqs

    def _make_way(self, idle: bool) -> list[int]:
        """The idle sequences to end before one more may come; raises Overloaded when it may not.

        Under `_crowd`. Idle work goes, and is refused, from a quarter of the queue on, the latest first.
        """
        excess = self._num_waiting + 1 - self._options.max_waiting / 4
        shed_ids: list[int] = []
        if not idle and excess > 0:
            shed_ids = list(self._idle_ids)[::-1][: math.ceil(excess)]
        limit = self._options.max_waiting // 4 if idle else self._options.max_waiting
        num_waiting = self._num_waiting - len(shed_ids)
        if num_waiting >= limit:
            raise Overloaded(num_waiting, limit, self._speed.wait_s(num_waiting))
        for sequence_id in shed_ids:
            del self._idle_ids[sequence_id]
            self._shed_ids.add(sequence_id)
        return shed_ids

    def _forget(self, sequence_id: int) -> None:
        """It has ended, or never began. Under `_crowd`."""
        del self._generations[sequence_id]
        self._idle_ids.pop(sequence_id, None)
        self._shed_ids.discard(sequence_id)

    def _deliver(self, progress: list[Progress]) -> None:
        """Called by the engine's thread: wake every event loop concerned once per step."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Generation, Progress]]] = defaultdict(list)
        ended = [each.outcome.finish_reason for each in progress if each.outcome is not None]
        with self._crowd:
            for each in progress:
                generation = self._generations[each.sequence_id]
                by_loop[generation.event_loop].append((generation, each))
                if each.outcome is not None:
                    self._forget(each.sequence_id)
            if ended:
                num_served = len(ended) - ended.count("shed")
                self._speed.ended(num_served, len(self._generations), self._clock())
        for event_loop, deliveries in by_loop.items():
            try:
                event_loop.call_soon_threadsafe(_hand_over, deliveries)
            except RuntimeError:  # the event loop is closed, and whoever followed is gone with it
                for generation, _ in deliveries:
                    generation.cancel()


def _hand_over(deliveries: list[tuple["Generation", Progress]]) -> None:
    for generation, progress in deliveries:
        generation.receive(progress)


class Generation:
    """Follows the sequences submitted together: asynchronous iterators of (position in the submission, progress).

    Each iterator begins at the beginning and ends when all sequences have ended. Lives on one event loop. `outcomes`
    fills up even when nobody iterates.
    """

    def __init__(
        self,
        event_loop: asyncio.AbstractEventLoop,
        sequence_ids: Sequence[int],
        loop: EngineLoop,
        listen: Callable[[int, Progress], None] | None = None,
    ) -> None:
        self.event_loop = event_loop
        self.outcomes: dict[int, Outcome] = {}  # by position
        self._positions = {sequence_id: position for position, sequence_id in enumerate(sequence_ids)}
        self._loop = loop
        self._listen = listen
        self._arrived: list[tuple[int, Progress]] = []
        self._news = asyncio.Event()

    @property
    def ended(self) -> bool:
        return len(self.outcomes) == len(self._positions)

    def cancel(self, reason: FinishReason = "cancelled") -> None:
        """Have what has not ended end for that reason, its blocks freed, within one engine step."""
        if not self.ended:
            self._loop.cancel(self._positions, reason)

    def receive(self, progress: Progress) -> None:
        """Called on the event loop for each progress of these sequences."""
        position = self._positions[progress.sequence_id]
        if progress.outcome is not None:
            self.outcomes[position] = progress.outcome
        if self._listen is not None:
            self._listen(position, progress)
        self._arrived.append((position, progress))
        self.wake()

    def wake(self) -> None:
        """Let everybody who awaits `news` go on."""
        self._news.set()
        self._news = asyncio.Event()

    def arrived(self, num_heard: int) -> list[tuple[int, Progress]]:
        """What has come after the first `num_heard`."""
        return self._arrived[num_heard:]

    async def news(self, num_heard: int) -> None:
        """Wait until more than the first `num_heard` have come, or somebody calls `wake`."""
        if len(self._arrived) == num_heard:
            await self._news.wait()

    async def __aiter__(self) -> AsyncGenerator[tuple[int, Progress], None]:
        num_heard = 0
        while num_heard < len(self._arrived) or not self.ended:
            await self.news(num_heard)
            for each in self.arrived(num_heard):
                num_heard += 1
                yield each
