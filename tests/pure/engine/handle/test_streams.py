"""What is submitted and how its tokens come back."""

import asyncio
import itertools
import threading

import pytest
from character_work import alone, prompt_of, work
from gate import Gate
from running_engine import running_engine, tokens_of

from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.errors import Overloaded, PromptTooLong
from halfline.sampling.sampler import Scored

pytestmark = pytest.mark.anyio


async def test_fifty_streams_of_which_twenty_are_dropped_leave_the_others_exact_and_nothing_behind() -> None:
    threads_before = set(threading.enumerate())
    prompts = [prompt_of(20 + number, seed=number // 2) for number in range(50)]

    async def follow(engine: EngineHandle, number: int) -> None:
        generation = engine.submit([work(prompts[number], 25)])
        if number % 5 < 2:
            await tokens_of(generation, limit=number % 7)
            generation.cancel()
            rest = await tokens_of(generation)
            assert len(rest) <= 25
            assert generation.outcomes[0].finish_reason in ("cancelled", "length")
        else:
            assert await tokens_of(generation) == alone(prompts[number], 25)
            assert generation.outcomes[0].finish_reason == "length"

    async with running_engine(HashExecutor(num_blocks=120)) as engine:
        await asyncio.gather(*(follow(engine, number) for number in range(50)))
        stats = engine.stats()
        assert (stats.num_running, stats.num_waiting, stats.num_held_blocks) == (0, 0, 0)
        assert stats.num_blank_blocks + stats.num_cached_blocks == 120
    assert engine.failure is None
    assert {thread for thread in threading.enumerate() if thread.name == "halfline-engine"} <= threads_before


async def test_choices_submitted_together_arrive_by_position() -> None:
    async with running_engine(HashExecutor(64)) as engine:
        prompts = [prompt_of(10, seed=1), prompt_of(30, seed=2)]
        found: list[list[Scored]] = [[], []]
        generation = engine.submit([work(prompt, 5) for prompt in prompts])
        async for position, progress in generation:
            found[position] += progress.piece.tokens
        assert found == [alone(prompt, 5) for prompt in prompts]


async def test_more_than_may_wait_are_refused() -> None:
    gate = Gate()
    options = EngineOptions(step_tokens=8, max_num_seqs=1, max_waiting=2)
    async with running_engine(HashExecutor(64, before_run=gate), options) as engine:
        admitted = [engine.submit([work(prompt_of(8, seed=n), 1)]) for n in range(3)]
        with pytest.raises(Overloaded, match="2 requests are waiting"):
            engine.submit([work([1], 1)])
        gate.open()
        for generation in admitted:
            await tokens_of(generation)
        assert await tokens_of(engine.submit([work([1], 1)])) == alone([1], 1)


async def test_what_can_never_fit_is_refused_at_the_door_and_what_just_fits_is_not() -> None:
    async with running_engine(HashExecutor(num_blocks=4)) as engine:
        assert engine.max_sequence_tokens == 64
        with pytest.raises(PromptTooLong, match="at most 64"):
            engine.submit([work(prompt_of(5, seed=0), 1), work(prompt_of(60, seed=1), 5)])
        assert await tokens_of(engine.submit([work(prompt_of(60, seed=1), 4)])) == alone(
            prompt_of(60, seed=1), 4
        )
        assert engine.stats().total_generated_tokens == 4, "the refused submission left nothing behind"


async def test_times_follow_the_clock_that_was_passed_in() -> None:
    ticks = itertools.count()
    async with running_engine(HashExecutor(64), clock=lambda: next(ticks) / 1e3) as engine:
        generation = engine.submit([work(prompt_of(8, seed=1), 3)])
        await tokens_of(generation)
    stats = generation.outcomes[0].stats
    assert stats.queue_ms == pytest.approx(1.0)
    assert stats.prefill_ms == pytest.approx(1.0)
    assert stats.decode_ms == pytest.approx(4.0)
