"""A newer request of the same cursor ends the older one, and nobody else's."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from gate import Gate
from running_pipeline import held_pipeline, numbered, others_go_on, running_pipeline, streamed, text_of

from halfline.engine.options import EngineOptions
from halfline.pipeline.complete import CompletionPipeline
from halfline.request import CompletionRequest, Document, FinishReason, Identity

pytestmark = pytest.mark.anyio

CURSOR = Identity("local", "ann", "a.py")


def typed(number: int, text: str, **changes: Any) -> CompletionRequest:
    return numbered(number, prompt=Document(text, "", "a.py"), identity=CURSOR, **changes)


async def whole(pipeline: CompletionPipeline, asked: CompletionRequest) -> tuple[str, FinishReason | None]:
    choice = (await pipeline.complete(asked)).choices[0]
    return choice.text, choice.finish_reason


async def in_pieces(
    pipeline: CompletionPipeline, asked: CompletionRequest
) -> tuple[str, FinishReason | None]:
    deltas = await streamed(pipeline, asked)
    return text_of(deltas), deltas[-1].finish_reason


# How far the older request is when the newer one comes: the step that is held, and its prompt's length.
STAGES = {"queue": (1, 20), "prefill": (2, 120), "decode": (6, 20)}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("answered", [whole, in_pieces])
async def test_a_newer_request_of_the_same_cursor_ends_the_older_one_wherever_it_is(
    stage: str, answered: Callable[..., Coroutine[None, None, tuple[str, FinishReason | None]]]
) -> None:
    held_step, length = STAGES[stage]
    gate = Gate(closed_from=held_step)
    options = EngineOptions(step_tokens=32, max_num_seqs=1, speculation="off")
    async with held_pipeline(gate, options) as (pipeline, _):
        before = []
        if stage == "queue":
            before.append(asyncio.create_task(whole(pipeline, numbered(9, max_tokens=2))))
            await gate.reached()
        older = asyncio.create_task(answered(pipeline, typed(1, "x" * length, max_tokens=100)))
        await (others_go_on() if stage == "queue" else gate.reached())
        newer = asyncio.create_task(pipeline.complete(typed(2, "x" * length + "y", max_tokens=3)))
        await others_go_on()
        gate.open()
        text, reason = await older
        assert reason == "superseded"
        assert (text != "") == (stage == "decode"), "it answers with what it has"
        assert (await newer).choices[0].finish_reason == "length"
        reused = {"queue": 0, "prefill": 64, "decode": 20}[stage]
        assert (await newer).receipt.num_reused_tokens == reused, "its KV stays"
        receipt = pipeline.receipt("r1")
        assert receipt is not None
        assert receipt.finish_reasons == ("superseded",)
        # The step that was held counts where it read what the newer one begins with too.
        done = {"queue": (0, 0), "prefill": (64, 0), "decode": (20 + 4, 5)}[stage]
        assert (receipt.num_computed_tokens, receipt.num_generated_tokens) == done
        await asyncio.gather(*before)


async def test_a_newer_request_that_asks_the_same_takes_the_generation_over() -> None:
    gate = Gate(closed_from=6)
    async with held_pipeline(gate) as (pipeline, engine):
        older = asyncio.create_task(pipeline.complete(typed(1, "abc")))
        await gate.reached()
        newer = asyncio.create_task(pipeline.complete(typed(2, "abc")))
        await others_go_on()
        superseded = await older
        assert superseded.choices[0].finish_reason == "superseded", "it need not wait for the step"
        gate.open()
        answer = await newer
        assert len(answer.choices[0].token_ids) == 20
        assert answer.choices[0].token_ids[:3] == superseded.choices[0].token_ids[:3] != ()
        assert engine.stats().total_generated_tokens == 20
        assert superseded.receipt.coalesced_with == "r2"
        assert answer.receipt.coalesced_with is None
        assert answer.receipt.num_computed_tokens > superseded.receipt.num_computed_tokens == 0


@pytest.mark.parametrize(
    "identity",
    [
        None,
        Identity("local", "bob", "a.py"),
        Identity("local", "ann", "b.py"),
        Identity("other", "ann", "a.py"),
        Identity("local", "ann", "a.py", key="another"),
    ],
)
async def test_whoever_is_not_the_same_cursor_supersedes_nobody(identity: Identity | None) -> None:
    gate = Gate(closed_from=4)
    async with held_pipeline(gate) as (pipeline, _):
        older = asyncio.create_task(pipeline.complete(typed(1, "abc")))
        await gate.reached()
        newer = asyncio.create_task(pipeline.complete(replace(typed(2, "abcd"), identity=identity)))
        await others_go_on()
        gate.open()
        for task in (older, newer):
            assert (await task).choices[0].finish_reason == "length"


async def test_requests_without_an_identity_never_supersede_each_other() -> None:
    async with running_pipeline() as (pipeline, _):
        asked = [numbered(n, prompt=Document("abc" * n, "", "a.py")) for n in range(1, 6)]
        answers = await asyncio.gather(*(pipeline.complete(each) for each in asked))
        assert {answer.choices[0].finish_reason for answer in answers} <= {"length", "stop"}
