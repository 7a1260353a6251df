"""Requests that are called off, or cut short under load."""

import asyncio

import pytest
from gate import Gate
from running_pipeline import held_pipeline, numbered, others_go_on

from halfline.engine.options import EngineOptions
from halfline.errors import Overloaded
from halfline.pipeline.options import PipelineOptions
from halfline.request import Document

pytestmark = pytest.mark.anyio


async def test_a_completion_can_be_called_off_by_its_tenant_alone_and_only_while_it_runs() -> None:
    gate = Gate(closed_from=6)
    async with held_pipeline(gate) as (pipeline, _):
        task = asyncio.create_task(pipeline.complete(numbered(1)))
        await gate.reached()
        assert not pipeline.cancel("r1", "somebody else")
        assert not pipeline.cancel("r2", "local")
        assert pipeline.cancel("r1", "local")
        gate.open()
        answer = await task
        assert answer.choices[0].finish_reason == "cancelled"
        assert answer.choices[0].text
        assert not pipeline.cancel("r1", "local")


async def test_idle_work_that_is_shed_is_told_when_to_come_back() -> None:
    gate = Gate(closed_from=1)
    options = EngineOptions(step_tokens=16, max_num_seqs=1, max_waiting=4)
    async with held_pipeline(gate, options) as (pipeline, _):
        idle = asyncio.create_task(pipeline.complete(numbered(1, priority="idle")))
        await gate.reached()
        others = [asyncio.create_task(pipeline.complete(numbered(n, prompt="x" * n))) for n in range(2, 5)]
        await others_go_on()
        gate.open()
        with pytest.raises(Overloaded) as refusal:
            await idle
        assert refusal.value.retry_after_s >= 1.0
        await asyncio.gather(*others)
        receipt = pipeline.receipt("r1")
        assert receipt is not None
        assert receipt.finish_reasons == ("shed",)


async def test_in_a_crowd_windows_are_half_as_long_and_the_receipt_says_so() -> None:
    gate = Gate(closed_from=1)
    options = EngineOptions(step_tokens=64, max_num_seqs=1, max_waiting=8)
    text = "".join(f"line {number}\n" for number in range(160))
    async with held_pipeline(gate, options) as (pipeline, _):
        calm = asyncio.create_task(pipeline.complete(numbered(0, prompt=Document(text, ""), max_tokens=1)))
        await gate.reached()
        crowd = [asyncio.create_task(pipeline.complete(numbered(n, prompt="x" * n))) for n in range(1, 6)]
        await others_go_on()
        late = asyncio.create_task(pipeline.complete(numbered(7, prompt=Document(text, ""), max_tokens=1)))
        await others_go_on()
        gate.open()
        whole, half = (await calm).receipt, (await late).receipt
        assert (whole.ledger["window"], half.ledger["window"]) == (1.0, 0.5)
        assert half.num_prompt_tokens <= PipelineOptions().prefix_tokens // 2 < whole.num_prompt_tokens
        await asyncio.gather(*crowd)
