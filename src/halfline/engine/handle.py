"""How async code touches the engine: submit, follow, cancel. The only door."""

import asyncio
import itertools
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence

from halfline.engine.loop import EngineLoop
from halfline.engine.options import EngineOptions
from halfline.engine.sequence import Outcome, Progress, Work
from halfline.engine.stats import EngineStats
from halfline.errors import Overloaded, PromptTooLong
from halfline.kv.disk_store import DiskStore
from halfline.model.executor import BLOCK_TOKENS, Executor


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
        self._ids = itertools.count()
        self._generations: dict[int, Generation] = {}  # by the id of each sequence that has not ended
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
    def max_sequence_tokens(self) -> int:
        """Most tokens, prompt and output together, that the model and the KV arena can hold for one sequence."""
        return min(self._spec.max_context, self._num_blocks * BLOCK_TOKENS)

    def stats(self) -> EngineStats:
        """The numbers after the latest step; costs nothing."""
        return self._loop.stats

    def submit(self, works: Sequence[Work]) -> "Generation":
        """Start all of the sequences, or none; must be called on the event loop that will follow them.

        Raises PromptTooLong, Overloaded, NotNow while shutting down, EngineFailed.
        """
        for work in works:
            if len(work.prompt_ids) + work.max_new_tokens > self.max_sequence_tokens:
                raise PromptTooLong(len(work.prompt_ids), work.max_new_tokens, self.max_sequence_tokens)
        num_waiting = len(self._generations) - self._options.max_num_seqs
        if num_waiting >= self._options.max_waiting:
            raise Overloaded(num_waiting, self._options.max_waiting)
        sequence_ids = [next(self._ids) for _ in works]
        generation = Generation(asyncio.get_running_loop(), sequence_ids, self._loop)
        self._generations |= dict.fromkeys(sequence_ids, generation)
        try:
            self._loop.submit(dict(zip(sequence_ids, works, strict=True)))
        except BaseException:
            for sequence_id in sequence_ids:
                del self._generations[sequence_id]
            raise
        return generation

    def _deliver(self, progress: list[Progress]) -> None:
        """Called by the engine's thread: wake every event loop concerned once per step."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Generation, Progress]]] = defaultdict(list)
        for each in progress:
            generation = self._generations[each.sequence_id]
            by_loop[generation.event_loop].append((generation, each))
            if each.outcome is not None:
                del self._generations[each.sequence_id]
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
    """Follows the sequences submitted together: an async iterator of (position in the submission, progress).

    It ends when all of them have ended. Lives on one event loop. `outcomes` fills up even when nobody iterates.
    """

    def __init__(
        self, event_loop: asyncio.AbstractEventLoop, sequence_ids: Sequence[int], loop: EngineLoop
    ) -> None:
        self.event_loop = event_loop
        self.outcomes: dict[int, Outcome] = {}  # by position
        self._positions = {sequence_id: position for position, sequence_id in enumerate(sequence_ids)}
        self._loop = loop
        self._arrived: deque[tuple[int, Progress]] = deque()
        self._wake = asyncio.Event()

    @property
    def ended(self) -> bool:
        return len(self.outcomes) == len(self._positions)

    def cancel(self) -> None:
        """Have what has not ended end as "cancelled", its blocks freed, within one engine step."""
        if not self.ended:
            self._loop.cancel(self._positions)

    def receive(self, progress: Progress) -> None:
        """Called on the event loop for each progress of these sequences."""
        position = self._positions[progress.sequence_id]
        if progress.outcome is not None:
            self.outcomes[position] = progress.outcome
        self._arrived.append((position, progress))
        self._wake.set()

    def __aiter__(self) -> "Generation":
        return self

    async def __anext__(self) -> tuple[int, Progress]:
        while not self._arrived:
            if self.ended:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._arrived.popleft()
