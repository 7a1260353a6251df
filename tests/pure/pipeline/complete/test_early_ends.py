"""Requests that are left, and engines and models that fail: who hears of it, what is freed, which receipt is kept."""

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import numpy as np
import pytest
from running_pipeline import request, running_pipeline

from halfline.engine.hash_executor import HashExecutor
from halfline.errors import EngineFailed, UnusableLogits
from halfline.model.executor import Batch, Outputs
from halfline.model.reference import with_logits
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.options import PipelineOptions
from halfline.request import ChoiceDelta, SamplingParams

pytestmark = pytest.mark.anyio


async def _close(deltas: AsyncGenerator[ChoiceDelta, None]) -> None:
    await anext(deltas)
    await deltas.aclose()


async def _cancel_task(deltas: AsyncGenerator[ChoiceDelta, None]) -> None:
    started = asyncio.Event()

    async def follow() -> None:
        async for _ in deltas:
            started.set()

    task = asyncio.create_task(follow())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await deltas.aclose()


@pytest.mark.parametrize("leave", [_close, _cancel_task])
async def test_a_stream_that_is_left_frees_its_blocks_and_leaves_a_receipt(
    leave: Callable[[AsyncGenerator[ChoiceDelta, None]], Coroutine[None, None, None]],
) -> None:
    async with running_pipeline() as (pipeline, engine):
        await leave(pipeline.stream(request("abc", max_tokens=900, params=SamplingParams(ignore_eos=True))))
        await settled(pipeline)
        assert engine.stats().num_held_blocks == 0
        receipt = pipeline.receipt("r1")
        assert receipt is not None
        assert receipt.finish_reasons == ("cancelled",)
        assert 0 < receipt.num_generated_tokens < 900
        assert receipt.num_computed_tokens >= 3


async def test_a_dropped_iterator_is_cancelled_without_being_closed() -> None:
    async with running_pipeline(HashExecutor(512)) as (pipeline, engine):
        asked = request("abc", max_tokens=8000, params=SamplingParams(ignore_eos=True))
        deltas = pipeline.stream(asked)
        await anext(deltas)
        del deltas
        gc.collect()
        while engine.stats().num_running:  # the event loop closes it some turns later
            await settled(pipeline)
        receipt = pipeline.receipt("r1")
        assert receipt is not None and receipt.finish_reasons == ("cancelled",)


async def settled(pipeline: CompletionPipeline) -> None:
    """The engine has taken in all that was asked of it before: messages are handled in order."""
    await pipeline.complete(request("x", id="after", max_tokens=1))


async def test_when_the_engine_breaks_the_running_fail_and_the_next_is_refused() -> None:
    broken = threading.Event()

    def breaks(batch: Batch) -> None:
        if broken.is_set():
            raise RuntimeError("the arena is on fire")

    async with running_pipeline(HashExecutor(128, before_run=breaks)) as (pipeline, _):
        deltas = pipeline.stream(request(max_tokens=900, num_choices=2))
        await anext(deltas)
        broken.set()
        last = {delta.index: delta async for delta in deltas}
        assert {delta.finish_reason for delta in last.values()} <= {"failed", "stop"}
        assert "failed" in {delta.finish_reason for delta in last.values()}
        receipt = pipeline.receipt("r1")
        assert receipt is not None and "failed" in receipt.finish_reasons
        with pytest.raises(EngineFailed):
            await pipeline.complete(request())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "changes",
    [
        {"params": SamplingParams()},
        {"params": SamplingParams(temperature=1.0, logprobs=2), "num_choices": 2},
        {"params": SamplingParams(logprobs=0), "echo": True, "max_tokens": 0},
    ],
    ids=["greedy", "drawn", "scored"],
)
async def test_a_model_that_overflows_fails_the_request_by_its_own_reason_and_no_other(
    bad: float, changes: dict[str, Any]
) -> None:
    class Overflowing(HashExecutor):
        overflows = True

        def run(self, batch: Batch) -> Outputs | None:
            outputs = super().run(batch)
            if outputs is None or not self.overflows:
                return outputs
            return with_logits(outputs, np.full_like(outputs.logits, bad))

    executor = Overflowing(64)
    async with running_pipeline(executor) as (pipeline, _):
        with pytest.raises(UnusableLogits, match=rf"the model produced .* largest logit is {bad}"):
            await pipeline.complete(request(**changes))
        executor.overflows = False
        receipt = pipeline.receipt("r1")
        assert receipt is not None and "failed" in receipt.finish_reasons
        assert (await pipeline.complete(request(**changes))).choices, "the engine goes on"


async def test_only_the_latest_receipts_are_kept() -> None:
    async with running_pipeline(options=PipelineOptions(kept_receipts=2)) as (pipeline, _):
        for number in range(4):
            await pipeline.complete(request(id=f"r{number}", max_tokens=1))
        assert [pipeline.receipt(f"r{number}") is None for number in range(4)] == [True, True, False, False]


async def test_there_is_no_receipt_while_a_request_runs() -> None:
    async with running_pipeline() as (pipeline, _):
        deltas = pipeline.stream(request(max_tokens=100))
        await anext(deltas)
        assert pipeline.receipt("r1") is None
        await deltas.aclose()
        assert pipeline.receipt("r1") is not None
