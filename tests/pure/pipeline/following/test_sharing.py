"""Requests that ask the same share a generation, whoever of them leaves it."""

import asyncio
from typing import Any

import pytest
from gate import Gate
from running_pipeline import held_pipeline, numbered, others_go_on, streamed, text_of

from halfline.request import SamplingParams

pytestmark = pytest.mark.anyio


async def test_equal_requests_in_flight_are_computed_once_and_each_gets_its_answer() -> None:
    gate = Gate(closed_from=5)
    async with held_pipeline(gate) as (pipeline, engine):
        first = asyncio.create_task(pipeline.complete(numbered(1)))
        await gate.reached()
        others = [asyncio.create_task(pipeline.complete(numbered(n))) for n in (2, 3)]
        stream = asyncio.create_task(streamed(pipeline, numbered(4)))
        await others_go_on()
        gate.open()
        answer = await first
        assert [(await each).choices for each in others] == [answer.choices] * 2
        assert text_of(await stream) == answer.choices[0].text
        assert engine.stats().total_generated_tokens == 20
        receipt = pipeline.receipt("r2")
        assert receipt is not None
        assert (receipt.coalesced_with, receipt.num_computed_tokens) == ("r1", 0)
        assert receipt.num_reused_tokens == receipt.num_prompt_tokens
        assert receipt.num_generated_tokens == 20
        assert answer.receipt.coalesced_with is None


@pytest.mark.parametrize(
    "changes",
    [
        {"tenant": "somebody else"},
        {"max_tokens": 19},
        {"params": SamplingParams(ignore_eos=True, stop=("x",))},
        {"params": SamplingParams(ignore_eos=True, logit_bias={7: 1.0})},
        {"priority": "batch"},
        {"num_choices": 2},
        {"echo": True},
    ],
)
async def test_what_differs_in_anything_is_computed_for_itself(changes: dict[str, Any]) -> None:
    gate = Gate(closed_from=3)
    async with held_pipeline(gate) as (pipeline, _):
        first = asyncio.create_task(pipeline.complete(numbered(1)))
        await gate.reached()
        second = asyncio.create_task(pipeline.complete(numbered(2, **changes)))
        await others_go_on()
        gate.open()
        await first
        assert (await second).receipt.coalesced_with is None


@pytest.mark.parametrize(("seed", "shares"), [(None, False), (5, True)])
async def test_drawn_answers_are_shared_only_with_the_same_seed(seed: int | None, shares: bool) -> None:
    gate = Gate(closed_from=3)
    params = SamplingParams(temperature=1.0, seed=seed, ignore_eos=True)
    async with held_pipeline(gate) as (pipeline, _):
        first = asyncio.create_task(pipeline.complete(numbered(1, params=params)))
        await gate.reached()
        second = asyncio.create_task(pipeline.complete(numbered(2, params=params)))
        await others_go_on()
        gate.open()
        answers = [await first, await second]
        assert (answers[1].receipt.coalesced_with == "r1") == shares
        assert (answers[0].choices == answers[1].choices) == shares


@pytest.mark.parametrize("leaver", [0, 1])
async def test_one_that_leaves_does_not_hurt_those_that_share_its_generation(leaver: int) -> None:
    gate = Gate(closed_from=5)
    async with held_pipeline(gate) as (pipeline, engine):
        tasks = [asyncio.create_task(pipeline.complete(numbered(1)))]
        await gate.reached()
        tasks.append(asyncio.create_task(pipeline.complete(numbered(2))))
        await others_go_on()
        tasks[leaver].cancel()
        await others_go_on()
        gate.open()
        stayed = await tasks[1 - leaver]
        assert len(stayed.choices[0].token_ids) == 20
        assert engine.stats().total_generated_tokens == 20
        left = pipeline.receipt(f"r{leaver + 1}")
        assert left is not None
        assert left.finish_reasons == ("cancelled",)


@pytest.mark.parametrize("num_leavers", [1, 2])
@pytest.mark.parametrize("how", ["cancelled", "gone"])
async def test_when_the_leader_leaves_early_who_waited_longest_has_the_work_in_its_receipt(
    num_leavers: int, how: str
) -> None:
    gate = Gate(closed_from=5)
    async with held_pipeline(gate) as (pipeline, _):
        tasks = [asyncio.create_task(pipeline.complete(numbered(1)))]
        await gate.reached()
        for number in (2, 3, 4):
            tasks.append(asyncio.create_task(pipeline.complete(numbered(number))))
            await others_go_on()
        for number in range(1, num_leavers + 1):
            if how == "cancelled":
                assert pipeline.cancel(f"r{number}", "local")
            else:
                tasks[number - 1].cancel()
            await others_go_on()
        gate.open()
        await asyncio.gather(*tasks, return_exceptions=True)
        receipts = [pipeline.receipt(f"r{number}") for number in range(1, 5)]
        leader = num_leavers + 1
        for number, receipt in enumerate(receipts, start=1):
            assert receipt is not None
            left = number <= num_leavers
            assert receipt.finish_reasons == ("cancelled" if left else "length",)
            assert receipt.coalesced_with == (
                None if number == leader else f"r{number + 1 if left else leader}"
            )
            computed = receipt.num_prompt_tokens + 19 if number == leader else 0
            assert receipt.num_computed_tokens == computed
            assert receipt.queue_ms + receipt.prefill_ms + receipt.decode_ms <= receipt.total_ms + 1e-6
            assert (receipt.decode_ms > 0) == (number == leader)


async def test_when_all_have_left_the_generation_ends_and_who_comes_then_starts_anew() -> None:
    gate = Gate(closed_from=5)
    async with held_pipeline(gate) as (pipeline, _):
        tasks = [asyncio.create_task(pipeline.complete(numbered(1)))]
        await gate.reached()
        tasks.append(asyncio.create_task(pipeline.complete(numbered(2))))
        await others_go_on()
        for task in tasks:
            task.cancel()
        await others_go_on()
        late = asyncio.create_task(pipeline.complete(numbered(3)))
        await others_go_on()
        gate.open()
        answer = await late
        assert answer.receipt.coalesced_with is None
        assert len(answer.choices[0].token_ids) == 20
