"""An engine that breaks or is closed: everybody hears of it and nobody hangs."""

import asyncio
import threading

import pytest
from character_work import alone, prompt_of, work
from gate import Gate
from running_engine import PATIENCE_S, running_engine, tokens_of

from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.errors import EngineFailed, NotNow
from halfline.model.executor import Batch

pytestmark = pytest.mark.anyio

ONE_AT_A_TIME = EngineOptions(step_tokens=8, max_num_seqs=1)


async def test_when_the_engine_breaks_everybody_hears_of_it_and_nobody_hangs() -> None:
    gate = Gate()

    def breaks(batch: Batch) -> None:
        gate(batch)
        raise RuntimeError("the arena is on fire")

    async with running_engine(HashExecutor(64, before_run=breaks), ONE_AT_A_TIME) as engine:
        generations = [engine.submit([work(prompt_of(8, seed=n), 3)]) for n in range(3)]
        await gate.reached()
        late = engine.submit([work(prompt_of(8, seed=9), 3)])
        gate.open()
        for generation in [*generations, late]:
            assert await tokens_of(generation) == []
            assert generation.outcomes[0].finish_reason == "failed"
        assert isinstance(engine.failure, RuntimeError)
        with pytest.raises(EngineFailed, match="on fire"):
            engine.submit([work(prompt_of(8, seed=1), 3)])


async def test_closing_with_grace_lets_the_running_finish_and_admits_nobody() -> None:
    gate = Gate()
    async with running_engine(HashExecutor(64, before_run=gate)) as engine:
        generation = engine.submit([work(prompt_of(8, seed=1), 4)])
        await gate.reached()
        closing = asyncio.create_task(asyncio.to_thread(engine.close, PATIENCE_S))
        while True:
            try:
                engine.submit([work([1], 1)]).cancel()
            except NotNow as refusal:
                assert refusal.retry_after_s > 0
                break
            await asyncio.sleep(0)
        gate.open()
        assert await tokens_of(generation) == alone(prompt_of(8, seed=1), 4)
        await closing


async def test_closing_without_grace_gives_everybody_a_last_event() -> None:
    executor = HashExecutor(64)
    entered = threading.Event()

    def endless(batch: Batch) -> None:
        entered.set()
        executor.stop_flag.wait(PATIENCE_S)

    executor.before_run = endless
    async with running_engine(executor, ONE_AT_A_TIME) as engine:
        generations = [engine.submit([work(prompt_of(8, seed=n), 3)]) for n in range(2)]
        assert await asyncio.to_thread(entered.wait, PATIENCE_S)
    for generation in generations:
        assert await tokens_of(generation) == []
        assert generation.outcomes[0].finish_reason == "cancelled"


async def test_closing_an_engine_that_never_started_ends_what_was_submitted() -> None:
    engine = EngineHandle(HashExecutor(64), EngineOptions())
    generation = engine.submit([work(prompt_of(8, seed=1), 100)])
    await asyncio.to_thread(engine.close, 0.0)
    await tokens_of(generation)
    assert generation.ended
