"""Who is called off stops its step where nobody else wants it, and is in no later one."""

import asyncio
import threading
from dataclasses import replace

import pytest
from character_work import alone, prompt_of, work
from gate import Gate
from running_engine import PATIENCE_S, running_engine, tokens_of

from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.model.executor import Batch

pytestmark = pytest.mark.anyio


async def test_cancelling_the_only_running_work_stops_the_step_itself() -> None:
    executor = HashExecutor(64)
    entered = threading.Event()

    def long_step(batch: Batch) -> None:
        entered.set()
        assert executor.stop_flag.wait(PATIENCE_S), "the step was to be stopped"

    executor.before_run = long_step
    async with running_engine(executor) as engine:
        generation = engine.submit([work(prompt_of(60, seed=1), 5)])
        assert await asyncio.to_thread(entered.wait, PATIENCE_S)
        generation.cancel()
        assert await tokens_of(generation) == []
        outcome = generation.outcomes[0]
        assert (outcome.finish_reason, outcome.stats.num_computed) == ("cancelled", 0)
        assert engine.stats().num_held_blocks == 0


async def test_a_step_that_reads_what_the_next_prompt_begins_with_is_not_stopped() -> None:
    gate, prompt = Gate(), prompt_of(60, seed=1)
    executor = HashExecutor(64, before_run=gate)
    async with running_engine(executor) as engine:
        cancelled = engine.submit([replace(work(prompt, 5), begins_the_next=True)])
        await gate.reached()
        cancelled.cancel()
        assert not executor.stop_flag.is_set()
        gate.open()
        await tokens_of(cancelled)
        following = engine.submit([work([*prompt, 1, 2], 5)])
        assert await tokens_of(following) == alone([*prompt, 1, 2], 5)
        assert following.outcomes[0].stats.num_reused == 60


async def test_cancelling_one_of_two_does_not_stop_their_step() -> None:
    gate = Gate()
    executor = HashExecutor(64, before_run=lambda batch: gate(batch) if len(batch.masks) == 2 else None)
    async with running_engine(executor) as engine:
        prompts = [prompt_of(40, seed=1), prompt_of(20, seed=2)]
        generations = [engine.submit([work(prompt, 200)]) for prompt in prompts]
        await gate.reached()
        generations[0].cancel()
        assert not executor.stop_flag.is_set()
        gate.open()
        assert await tokens_of(generations[1]) == alone(prompts[1], 200)
        await tokens_of(generations[0])
        assert generations[0].outcomes[0].finish_reason == "cancelled"


async def test_eight_dropped_generations_are_in_no_later_step_and_the_next_request_is_in_the_very_next() -> (
    None
):
    """Each is dropped while a step runs that all eight are in; that step gives up, and nothing of it counts."""
    gate = Gate()
    batches: list[Batch] = []

    def step(batch: Batch) -> None:
        batches.append(batch)
        if len(batch.masks) == 8:
            gate(batch)

    executor = HashExecutor(128, before_run=step)
    async with running_engine(executor) as engine:
        generations = [engine.submit([work(prompt_of(40, seed=seed), 200)]) for seed in range(8)]
        await gate.reached()
        num_steps, dropped_in = engine.stats().total_steps, len(batches)
        for generation in generations:
            generation.cancel()
        assert executor.stop_flag.is_set(), "it is stopped between two layers"
        short = engine.submit([work(prompt_of(5, seed=9), 1)])
        gate.open()
        assert await tokens_of(short) == alone(prompt_of(5, seed=9), 1)
        (next_batch,) = batches[dropped_in:]
        assert next_batch.token_ids.tolist() == prompt_of(5, seed=9)
        assert engine.stats().total_steps == num_steps + 2, "the one that was stopped, and the short one's"
        for generation in generations:
            assert generation.outcomes[0].finish_reason == "cancelled"
        assert engine.stats().num_held_blocks == 0


async def test_a_sequence_that_waits_can_be_cancelled() -> None:
    gate = Gate()
    options = EngineOptions(step_tokens=8, max_num_seqs=1)
    async with running_engine(HashExecutor(64, before_run=gate), options) as engine:
        first = engine.submit([work(prompt_of(8, seed=1), 3)])
        await gate.reached()
        second = engine.submit([work(prompt_of(8, seed=2), 3)])
        second.cancel()
        gate.open()
        assert await tokens_of(second) == []
        assert second.outcomes[0].finish_reason == "cancelled"
        assert second.outcomes[0].stats.num_computed == 0
        assert await tokens_of(first) == alone(prompt_of(8, seed=1), 3)


async def test_work_whose_event_loop_is_gone_is_cancelled() -> None:
    gate, other = Gate(), prompt_of(8, seed=2)
    async with running_engine(HashExecutor(64, before_run=gate)) as engine:

        async def submit_and_leave() -> None:
            engine.submit([work(prompt_of(8, seed=1), 500)])
            await gate.reached()

        await asyncio.to_thread(asyncio.run, submit_and_leave())
        gate.open()
        assert await tokens_of(engine.submit([work(other, 20)])) == alone(other, 20)
        assert engine.stats().num_running == 0
