"""The engine's thread as an event loop sees it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from halfline.engine.handle import EngineHandle, Generation
from halfline.engine.options import EngineOptions
from halfline.model.executor import Executor
from halfline.sampling.sampler import Scored

PATIENCE_S = 60.0  # nothing here waits for long; a test that would hang fails instead


@asynccontextmanager
async def running_engine(
    executor: Executor,
    options: EngineOptions | None = None,
    clock: Callable[[], float] = time.perf_counter,
    patience_s: float = PATIENCE_S,
) -> AsyncIterator[EngineHandle]:
    engine = EngineHandle(executor, options or EngineOptions(step_tokens=64, max_num_seqs=64), clock)
    engine.start()
    try:
        async with asyncio.timeout(patience_s):
            yield engine
    finally:
        await asyncio.to_thread(engine.close, 0.0)


async def tokens_of(generation: Generation, limit: int | None = None) -> list[Scored]:
    """All tokens of a single sequence, or at least `limit` of them."""
    found: list[Scored] = []
    async for _, progress in generation:
        found += progress.piece.tokens
        if limit is not None and len(found) >= limit:
            break
    return found
