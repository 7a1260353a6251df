"""How async code touches the engine: submit, follow, cancel. The only door."""

import time
from collections.abc import Callable

from halfline.engine.options import EngineOptions
from halfline.engine.stats import EngineStats
from halfline.model.executor import Executor


class EngineHandle:
    """Starts the engine's thread and talks to it; every method may be called from any thread."""

    def __init__(
        self,
        executor: Executor,
        options: EngineOptions,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        raise NotImplementedError

    def start(self) -> None:
        """Start the thread; submitting before is allowed, nothing runs until then."""
        raise NotImplementedError

    def close(self, grace_s: float) -> None:
        """Refuse new work, let the running finish for `grace_s`, cancel the rest, end the thread.

        Blocks until the thread has ended: async code calls it through `asyncio.to_thread`. Every sequence gets its
        last event.
        """
        raise NotImplementedError

    @property
    def failure(self) -> BaseException | None:
        """What ended the engine's thread; None while it is well (for GET /health)."""
        raise NotImplementedError

    @property
    def max_sequence_tokens(self) -> int:
        """Most tokens, prompt and output together, that the model and the KV arena can hold for one sequence."""
        raise NotImplementedError

    def stats(self) -> EngineStats:
        """The numbers after the latest step; costs nothing."""
        raise NotImplementedError
