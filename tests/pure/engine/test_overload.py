"""The engine's door and its thread under load: who is stopped, who is ended, who is refused and until when."""

import asyncio
import threading
from collections.abc import Callable, Coroutine

import pytest
from character_work import Characters

from halfline.engine.handle import EngineHandle, Generation
from halfline.engine.hash_executor import HashExecutor, hash_logits
from halfline.engine.options import EngineOptions
from halfline.engine.queue_speed import QueueSpeed
from halfline.engine.sequence import Work
from halfline.errors import Overloaded
from halfline.model.executor import Batch
from halfline.request import Priority, SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler

VOCAB = 258
PATIENCE_S = 30.0


def work(length: int, max_new_tokens: int = 1, priority: Priority = "interactive", first: int = 0) -> Work:
    prompt = [first, *range(1, length)]
    return Work(
        prompt_ids=tuple(prompt),
        max_new_tokens=max_new_tokens,
        sampler=Sampler(SamplingParams(), prompt),
        reader=Reader(Characters()),
        stop_token_ids=frozenset(),
        namespace="me",
        priority=priority,
    )


def alone(asked: Work) -> list[int]:
    tokens = list(asked.prompt_ids)
    for _ in range(asked.max_new_tokens):
        tokens.append(int(hash_logits(tokens, VOCAB).argmax()))
    return tokens[len(asked.prompt_ids) :]


async def tokens_of(generation: Generation) -> list[int]:
    return [token.token_id async for _, progress in generation for token in progress.piece.tokens]


def on_engine(
    executor: HashExecutor,
    options: EngineOptions,
    main: Callable[[EngineHandle], Coroutine[None, None, None]],
) -> None:
    async def patient() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await main(engine)

    engine = EngineHandle(executor, options)
    engine.start()
    try:
        asyncio.run(patient())
    finally:
        engine.close(0.0)


def test_a_keystroke_stops_a_step_that_holds_only_idle_work_and_the_blocks_before_it_are_kept() -> None:
    executor = HashExecutor(64)
    entered = threading.Event()

    steps: list[tuple[int, int]] = []  # first place and rows, each of one sequence

    def third_step_is_long(batch: Batch) -> None:
        assert len(batch.masks) == 1, "idle work pauses beside other work"
        steps.append((int(batch.first_places[0]), len(batch.token_ids)))
        if len(steps) == 3:
            entered.set()
            assert executor.stop_flag.wait(PATIENCE_S), "idle work was to yield"

    async def main(engine: EngineHandle) -> None:
        idle = engine.submit([work(128, 3, "idle")])
        assert await asyncio.to_thread(entered.wait, PATIENCE_S)
        typed = engine.submit([work(10, 2, first=9)])
        assert await tokens_of(typed) == alone(work(10, 2, first=9))
        assert await tokens_of(idle) == alone(work(128, 3))
        assert idle.outcomes[0].stats.num_computed == 128 + 2
        idle_steps = [(0, 32), (32, 32), (64, 32)]
        assert steps[:7] == [*idle_steps, (0, 10), (10, 1), (64, 32), (96, 32)], (
            "only the stopped step is run again"
        )

    executor.before_run = third_step_is_long
    on_engine(executor, EngineOptions(step_tokens=32, max_num_seqs=8, speculation="off"), main)


@pytest.mark.parametrize("beside", ["interactive", "batch"])
def test_a_keystroke_does_not_stop_a_step_that_somebody_waits_for(beside: Priority) -> None:
    executor = HashExecutor(64)
    entered, opened = threading.Event(), threading.Event()

    def gate(batch: Batch) -> None:
        entered.set()
        assert opened.wait(PATIENCE_S)

    async def main(engine: EngineHandle) -> None:
        first = engine.submit([work(30, 3, beside)])
        assert await asyncio.to_thread(entered.wait, PATIENCE_S)
        second = engine.submit([work(10, first=9)])
        assert not executor.stop_flag.is_set()
        opened.set()
        assert await tokens_of(first) == alone(work(30, 3))
        await tokens_of(second)

    executor.before_run = gate
    on_engine(executor, EngineOptions(step_tokens=32, max_num_seqs=8), main)


def test_under_overload_idle_work_is_refused_and_ended_first_then_windows_shrink_then_all_are_refused() -> (
    None
):
    opened = threading.Event()

    def gate(batch: Batch) -> None:
        assert opened.wait(PATIENCE_S)

    executor = HashExecutor(64, before_run=gate)
    options = EngineOptions(step_tokens=8, max_num_seqs=1, max_waiting=8)

    async def main(engine: EngineHandle) -> None:
        idle = [engine.submit([work(4, priority="idle", first=n)]) for n in range(3)]
        with pytest.raises(Overloaded, match="2 requests are waiting and the limit is 2"):
            engine.submit([work(4, priority="idle")])
        typed = [engine.submit([work(4, first=10 + n)]) for n in range(3)]
        assert not engine.crowded, "all idle ones were told to go, so two wait"
        typed += [engine.submit([work(4, first=20 + n)]) for n in range(2)]
        assert engine.crowded
        typed += [engine.submit([work(4, first=30 + n)]) for n in range(4)]
        with pytest.raises(Overloaded, match="8 requests are waiting and the limit is 8") as refusal:
            engine.submit([work(4, first=40)])
        assert refusal.value.retry_after_s == 1.0, "nothing is known of the queue's speed"
        opened.set()
        for each in idle:
            await tokens_of(each)
            assert each.outcomes[0].finish_reason == "shed"
        for number, each in enumerate(typed):
            assert len(await tokens_of(each)) == 1, number
        assert not engine.crowded
        assert sum(engine.stats().cancels.counts) >= 1

    on_engine(executor, options, main)


def test_retry_after_is_what_those_ahead_take_at_the_queues_speed() -> None:
    speed = QueueSpeed()
    speed.ended(1, 20, 100.0)
    for number in range(1, 60):
        speed.ended(1, 20, 100.0 + 0.5 * number)
    assert speed.wait_s(20) == pytest.approx(10.0)
    for number in range(1, 200):
        speed.ended(4, 20, 129.5 + 0.5 * number)
    assert speed.wait_s(20) == pytest.approx(2.5)
    assert speed.wait_s(0) == 1.0
    assert speed.wait_s(100_000) == 60.0


def test_time_in_which_nobody_came_does_not_count_as_slowness() -> None:
    speed = QueueSpeed()
    for start in range(0, 100_000, 1000):
        speed.ended(1, 1, float(start))
        speed.ended(1, 0, start + 0.2)
    assert speed.wait_s(10) == pytest.approx(2.0)


def test_those_that_were_made_to_leave_do_not_make_the_queue_look_fast() -> None:
    speed = QueueSpeed()
    for number in range(60):
        speed.ended(1, 500, float(number))
    speed.ended(0, 400, 59.5)  # a hundred were shed
    assert speed.wait_s(50) == pytest.approx(50.0)
    speed.ended(0, 0, 60.0)  # and all others
    speed.ended(1, 3, 10_000.0)
    speed.ended(1, 2, 10_001.0)
    assert speed.wait_s(50) == pytest.approx(50.0)


def test_only_who_was_served_counts_for_the_queues_speed() -> None:
    now = [100.0]
    opened = threading.Event()

    def gate(batch: Batch) -> None:
        assert opened.wait(PATIENCE_S)
        now[0] += 20.0

    executor = HashExecutor(64, before_run=gate)
    engine = EngineHandle(
        executor, EngineOptions(step_tokens=8, max_num_seqs=1, max_waiting=8), clock=lambda: now[0]
    )

    async def main() -> None:
        idle = [engine.submit([work(4, priority="idle", first=n)]) for n in range(3)]
        typed = [engine.submit([work(4, first=10 + n)]) for n in range(5)]
        opened.set()
        for each in [*idle, *typed]:
            await tokens_of(each)
        assert {each.outcomes[0].finish_reason for each in idle} == {"shed"}
        assert engine._speed.wait_s(2) == pytest.approx(40.0), "a step of 20 s each"

    engine.start()
    try:
        asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
    finally:
        engine.close(0.0)


@pytest.mark.parametrize("reason", ["cancelled", "superseded"])
def test_a_generation_ends_for_the_reason_given_and_may_be_followed_from_its_beginning_twice(
    reason: str,
) -> None:
    async def main(engine: EngineHandle) -> None:
        generation = engine.submit([work(10, 4000)])
        async for _, progress in generation:
            if progress.piece.tokens:
                break
        generation.cancel(reason)  # type: ignore[arg-type]
        first, second = await tokens_of(generation), await tokens_of(generation)
        assert first == second == alone(work(10, len(first)))
        assert generation.outcomes[0].finish_reason == reason

    on_engine(HashExecutor(512), EngineOptions(), main)
