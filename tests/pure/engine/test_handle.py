"""The engine's thread seen from an event loop: streams, cancellation, crash, shutdown."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from halfline.engine.handle import EngineHandle, Generation
from halfline.engine.hash_executor import HashExecutor, hash_logits
from halfline.engine.options import EngineOptions
from halfline.engine.sequence import Work
from halfline.errors import EngineFailed, NotNow, Overloaded, PromptTooLong
from halfline.model.executor import Batch
from halfline.request import SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler

VOCAB = 258
PATIENCE_S = 30.0  # nothing here waits for long; a test that would hang fails instead


class Characters:
    """Token n is character n."""

    def push(self, token_id: int) -> str:
        return chr(token_id)

    def finish(self) -> str:
        return ""


def work(prompt: list[int], max_new_tokens: int) -> Work:
    return Work(
        prompt_ids=tuple(prompt),
        max_new_tokens=max_new_tokens,
        sampler=Sampler(SamplingParams(), prompt),
        reader=Reader(Characters()),
        stop_token_ids=frozenset(),
        namespace="me",
    )


def alone(prompt: list[int], max_new_tokens: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(max_new_tokens):
        tokens.append(int(hash_logits(tokens, VOCAB).argmax()))
    return tokens[len(prompt) :]


def prompt_of(length: int, seed: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, 256, length)]


@contextmanager
def running(
    executor: HashExecutor, options: EngineOptions | None = None, grace_s: float = 0.0
) -> Iterator[EngineHandle]:
    engine = EngineHandle(executor, options or EngineOptions(step_tokens=64, max_num_seqs=64))
    engine.start()
    try:
        yield engine
    finally:
        engine.close(grace_s)


def on_loop(main: Callable[[], Coroutine[None, None, None]]) -> None:
    async def patient() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await main()

    asyncio.run(patient())


async def tokens_of(generation: Generation, limit: int | None = None) -> list[int]:
    """All tokens of a single sequence, or at least `limit` of them."""
    found: list[int] = []
    async for _, progress in generation:
        found += [token.token_id for token in progress.piece.tokens]
        if limit is not None and len(found) >= limit:
            break
    return found


class Gate:
    """Lets an executor run step by step: `entered` says that a step is in, `opened` lets steps out."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self, batch: Batch) -> None:
        self.entered.set()
        assert self.opened.wait(PATIENCE_S)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self.entered.wait, PATIENCE_S)


def test_fifty_streams_of_which_twenty_are_dropped_leave_the_others_exact_and_nothing_behind() -> None:
    threads_before = set(threading.enumerate())
    executor = HashExecutor(num_blocks=120)
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

    with running(executor) as engine:
        on_loop(lambda: _gather([follow(engine, number) for number in range(50)]))
        stats = engine.stats()
        assert (stats.num_running, stats.num_waiting, stats.num_held_blocks) == (0, 0, 0)
        assert stats.num_blank_blocks + stats.num_cached_blocks == 120
    assert engine.failure is None
    assert {thread for thread in threading.enumerate() if thread.name == "halfline-engine"} <= threads_before


async def _gather(coroutines: list[Coroutine[None, None, None]]) -> None:
    await asyncio.gather(*coroutines)


def test_choices_submitted_together_arrive_by_position() -> None:
    with running(HashExecutor(64)) as engine:

        async def main() -> None:
            prompts = [prompt_of(10, seed=1), prompt_of(30, seed=2)]
            found: list[list[int]] = [[], []]
            generation = engine.submit([work(prompt, 5) for prompt in prompts])
            async for position, progress in generation:
                found[position] += [token.token_id for token in progress.piece.tokens]
            assert found == [alone(prompt, 5) for prompt in prompts]

        on_loop(main)


def test_cancelling_the_only_running_work_stops_the_step_itself() -> None:
    executor = HashExecutor(64)
    entered = threading.Event()

    def long_step(batch: Batch) -> None:
        entered.set()
        assert executor.stop_flag.wait(PATIENCE_S), "the step was to be stopped"

    executor.before_run = long_step
    with running(executor) as engine:

        async def main() -> None:
            generation = engine.submit([work(prompt_of(60, seed=1), 5)])
            assert await asyncio.to_thread(entered.wait, PATIENCE_S)
            generation.cancel()
            assert await tokens_of(generation) == []
            outcome = generation.outcomes[0]
            assert (outcome.finish_reason, outcome.stats.num_computed) == ("cancelled", 0)
            assert engine.stats().num_held_blocks == 0

        on_loop(main)


def test_a_step_that_reads_what_the_next_prompt_begins_with_is_not_stopped() -> None:
    gate, prompt = Gate(), prompt_of(60, seed=1)
    executor = HashExecutor(64, before_run=gate)
    with running(executor) as engine:

        async def main() -> None:
            cancelled = engine.submit([replace(work(prompt, 5), begins_the_next=True)])
            await gate.reached()
            cancelled.cancel()
            assert not executor.stop_flag.is_set()
            gate.opened.set()
            await tokens_of(cancelled)
            following = engine.submit([work([*prompt, 1, 2], 5)])
            assert await tokens_of(following) == alone([*prompt, 1, 2], 5)
            assert following.outcomes[0].stats.num_reused == 60

        on_loop(main)


def test_cancelling_one_of_two_does_not_stop_their_step() -> None:
    gate = Gate()
    executor = HashExecutor(64, before_run=lambda batch: gate(batch) if len(batch.masks) == 2 else None)
    with running(executor) as engine:

        async def main() -> None:
            prompts = [prompt_of(40, seed=1), prompt_of(20, seed=2)]
            generations = [engine.submit([work(prompt, 200)]) for prompt in prompts]
            await gate.reached()
            generations[0].cancel()
            assert not executor.stop_flag.is_set()
            gate.opened.set()
            assert await tokens_of(generations[1]) == alone(prompts[1], 200)
            await tokens_of(generations[0])
            assert generations[0].outcomes[0].finish_reason == "cancelled"

        on_loop(main)


def test_eight_dropped_generations_are_in_no_later_step_and_the_next_request_is_in_the_very_next() -> None:
    """Each is dropped while a step runs that all eight are in; that step gives up, and nothing of it counts."""
    gate = Gate()
    batches: list[Batch] = []

    def step(batch: Batch) -> None:
        batches.append(batch)
        if len(batch.masks) == 8:
            gate(batch)

    executor = HashExecutor(128, before_run=step)
    with running(executor) as engine:

        async def main() -> None:
            generations = [engine.submit([work(prompt_of(40, seed=seed), 200)]) for seed in range(8)]
            await gate.reached()
            num_steps, dropped_in = engine.stats().total_steps, len(batches)
            for generation in generations:
                generation.cancel()
            assert executor.stop_flag.is_set(), "it is stopped between two layers"
            short = engine.submit([work(prompt_of(5, seed=9), 1)])
            gate.opened.set()
            assert await tokens_of(short) == alone(prompt_of(5, seed=9), 1)
            (next_batch,) = batches[dropped_in:]
            assert next_batch.token_ids.tolist() == prompt_of(5, seed=9)
            assert engine.stats().total_steps == num_steps + 2, (
                "the one that was stopped, and the short one's"
            )
            for generation in generations:
                assert generation.outcomes[0].finish_reason == "cancelled"
            assert engine.stats().num_held_blocks == 0

        on_loop(main)


def test_a_sequence_that_waits_can_be_cancelled() -> None:
    gate = Gate()
    with running(HashExecutor(64, before_run=gate), EngineOptions(step_tokens=8, max_num_seqs=1)) as engine:

        async def main() -> None:
            first = engine.submit([work(prompt_of(8, seed=1), 3)])
            await gate.reached()
            second = engine.submit([work(prompt_of(8, seed=2), 3)])
            second.cancel()
            gate.opened.set()
            assert await tokens_of(second) == []
            assert second.outcomes[0].finish_reason == "cancelled"
            assert second.outcomes[0].stats.num_computed == 0
            assert await tokens_of(first) == alone(prompt_of(8, seed=1), 3)

        on_loop(main)


def test_when_the_engine_breaks_everybody_hears_of_it_and_nobody_hangs() -> None:
    gate = Gate()

    def breaks(batch: Batch) -> None:
        gate(batch)
        raise RuntimeError("the arena is on fire")

    with running(HashExecutor(64, before_run=breaks), EngineOptions(step_tokens=8, max_num_seqs=1)) as engine:

        async def main() -> None:
            generations = [engine.submit([work(prompt_of(8, seed=n), 3)]) for n in range(3)]
            await gate.reached()
            late = engine.submit([work(prompt_of(8, seed=9), 3)])
            gate.opened.set()
            for generation in [*generations, late]:
                assert await tokens_of(generation) == []
                assert generation.outcomes[0].finish_reason == "failed"
            assert isinstance(engine.failure, RuntimeError)
            with pytest.raises(EngineFailed, match="on fire"):
                engine.submit([work(prompt_of(8, seed=1), 3)])

        on_loop(main)


def test_closing_with_grace_lets_the_running_finish_and_admits_nobody() -> None:
    gate = Gate()
    engine = EngineHandle(HashExecutor(64, before_run=gate), EngineOptions())
    engine.start()

    async def main() -> None:
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
        gate.opened.set()
        assert await tokens_of(generation) == alone(prompt_of(8, seed=1), 4)
        await closing

    on_loop(main)


def test_closing_without_grace_gives_everybody_a_last_event() -> None:
    executor = HashExecutor(64)
    entered = threading.Event()

    def endless(batch: Batch) -> None:
        entered.set()
        executor.stop_flag.wait(PATIENCE_S)

    executor.before_run = endless
    engine = EngineHandle(executor, EngineOptions(step_tokens=8, max_num_seqs=1))
    engine.start()

    async def main() -> None:
        generations = [engine.submit([work(prompt_of(8, seed=n), 3)]) for n in range(2)]
        assert await asyncio.to_thread(entered.wait, PATIENCE_S)
        await asyncio.to_thread(engine.close, 0.0)
        for generation in generations:
            assert await tokens_of(generation) == []
            assert generation.outcomes[0].finish_reason == "cancelled"

    on_loop(main)


def test_closing_an_engine_that_never_started_ends_what_was_submitted() -> None:
    engine = EngineHandle(HashExecutor(64), EngineOptions())

    async def main() -> None:
        generation = engine.submit([work(prompt_of(8, seed=1), 100)])
        await asyncio.to_thread(engine.close, 0.0)
        await tokens_of(generation)
        assert generation.ended

    on_loop(main)


def test_more_than_may_wait_are_refused() -> None:
    gate = Gate()
    options = EngineOptions(step_tokens=8, max_num_seqs=1, max_waiting=2)
    with running(HashExecutor(64, before_run=gate), options) as engine:

        async def main() -> None:
            admitted = [engine.submit([work(prompt_of(8, seed=n), 1)]) for n in range(3)]
            with pytest.raises(Overloaded, match="2 requests are waiting"):
                engine.submit([work([1], 1)])
            gate.opened.set()
            for generation in admitted:
                await tokens_of(generation)
            assert await tokens_of(engine.submit([work([1], 1)])) == alone([1], 1)

        on_loop(main)


def test_what_can_never_fit_is_refused_at_the_door_and_what_just_fits_is_not() -> None:
    with running(HashExecutor(num_blocks=4)) as engine:

        async def main() -> None:
            assert engine.max_sequence_tokens == 64
            with pytest.raises(PromptTooLong, match="at most 64"):
                engine.submit([work(prompt_of(5, seed=0), 1), work(prompt_of(60, seed=1), 5)])
            assert await tokens_of(engine.submit([work(prompt_of(60, seed=1), 4)])) == alone(
                prompt_of(60, seed=1), 4
            )
            assert engine.stats().total_generated_tokens == 4, "the refused submission left nothing behind"

        on_loop(main)


def test_work_whose_event_loop_is_gone_is_cancelled() -> None:
    gate = Gate()
    with running(HashExecutor(64, before_run=gate)) as engine:

        async def submit_and_leave() -> None:
            engine.submit([work(prompt_of(8, seed=1), 500)])
            await gate.reached()

        on_loop(submit_and_leave)
        gate.opened.set()
        other = prompt_of(8, seed=2)

        async def main() -> None:
            assert await tokens_of(engine.submit([work(other, 20)])) == alone(other, 20)
            assert engine.stats().num_running == 0

        on_loop(main)


def test_times_follow_the_clock_that_was_passed_in() -> None:
    ticks = iter(range(1000))
    engine = EngineHandle(HashExecutor(64), EngineOptions(), clock=lambda: next(ticks) / 1e3)
    engine.start()

    async def main() -> None:
        generation = engine.submit([work(prompt_of(8, seed=1), 3)])
        await tokens_of(generation)
        stats = generation.outcomes[0].stats
        assert stats.queue_ms == pytest.approx(1.0)
        assert stats.prefill_ms == pytest.approx(1.0)
        assert stats.decode_ms == pytest.approx(4.0)

    on_loop(main)
    engine.close(0.0)
