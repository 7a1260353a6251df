"""Requests that share a generation, replace each other, are called off, or are cut short under load."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.errors import Overloaded
from halfline.model.executor import Batch
from halfline.model.random_model import byte_vocab
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.options import PipelineOptions
from halfline.request import (
    ChoiceDelta,
    Completion,
    CompletionRequest,
    Document,
    FinishReason,
    Identity,
    SamplingParams,
)
from halfline.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(byte_vocab())
PATIENCE_S = 30.0
CURSOR = Identity("local", "ann", "a.py")


class Gate:
    """Holds every step from the `closed_from`th on until it is opened. `steps` is how many have begun."""

    def __init__(self, closed_from: int) -> None:
        self.steps = 0
        self.rows: list[int] = []
        self._closed_from = closed_from
        self._reached, self._opened = threading.Event(), threading.Event()

    def __call__(self, batch: Batch) -> None:
        self.steps += 1
        self.rows.append(len(batch.token_ids))
        if self.steps >= self._closed_from:
            self._reached.set()
            assert self._opened.wait(PATIENCE_S)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, PATIENCE_S)

    def open(self) -> None:
        self._opened.set()


def request(number: int, **changes: Any) -> CompletionRequest:
    base = CompletionRequest(
        id=f"r{number}",
        prompt="one quick brown fox and another",
        params=SamplingParams(ignore_eos=True),
        max_tokens=20,
    )
    return replace(base, **changes)


def typed(number: int, text: str, **changes: Any) -> CompletionRequest:
    return request(number, prompt=Document(text, "", "a.py"), identity=CURSOR, **changes)


def serve(
    main: Callable[[CompletionPipeline, EngineHandle], Coroutine[None, None, None]],
    gate: Gate | None = None,
    options: EngineOptions | None = None,
) -> None:
    executor = HashExecutor(128) if gate is None else HashExecutor(128, before_run=gate)

    async def patient() -> None:
        engine = EngineHandle(
            executor, options or EngineOptions(step_tokens=64, max_num_seqs=16, speculation="off")
        )
        engine.start()
        pipeline = CompletionPipeline(engine, TOKENIZER, executor.spec, PipelineOptions())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await main(pipeline, engine)
        finally:
            if gate is not None:
                gate.open()
            await asyncio.to_thread(engine.close, 0.0)

    asyncio.run(patient())


async def turns(count: int = 20) -> None:
    """Let other tasks run."""
    for _ in range(count):
        await asyncio.sleep(0)


def text_of(deltas: list[ChoiceDelta]) -> str:
    return "".join(delta.text for delta in deltas)


async def collect(pipeline: CompletionPipeline, asked: CompletionRequest) -> list[ChoiceDelta]:
    return [delta async for delta in pipeline.stream(asked)]


def test_equal_requests_in_flight_are_computed_once_and_each_gets_its_answer() -> None:
    gate = Gate(closed_from=5)

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        first = asyncio.create_task(pipeline.complete(request(1)))
        await gate.reached()
        others = [asyncio.create_task(pipeline.complete(request(n))) for n in (2, 3)]
        streamed = asyncio.create_task(collect(pipeline, request(4)))
        await turns()
        gate.open()
        answer = await first
        assert [(await each).choices for each in others] == [answer.choices] * 2
        assert text_of(await streamed) == answer.choices[0].text
        assert engine.stats().total_generated_tokens == 20
        receipt = pipeline.receipt("r2")
        assert receipt is not None
        assert (receipt.coalesced_with, receipt.num_computed_tokens) == ("r1", 0)
        assert receipt.num_reused_tokens == receipt.num_prompt_tokens
        assert receipt.num_generated_tokens == 20
        assert answer.receipt.coalesced_with is None

    serve(main, gate)


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
def test_what_differs_in_anything_is_computed_for_itself(changes: dict[str, Any]) -> None:
    gate = Gate(closed_from=3)

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        first = asyncio.create_task(pipeline.complete(request(1)))
        await gate.reached()
        second = asyncio.create_task(pipeline.complete(request(2, **changes)))
        await turns()
        gate.open()
        await first
        assert (await second).receipt.coalesced_with is None

    serve(main, gate)


@pytest.mark.parametrize(("seed", "shares"), [(None, False), (5, True)])
def test_drawn_answers_are_shared_only_with_the_same_seed(seed: int | None, shares: bool) -> None:
    gate = Gate(closed_from=3)
    params = SamplingParams(temperature=1.0, seed=seed, ignore_eos=True)

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        first = asyncio.create_task(pipeline.complete(request(1, params=params)))
        await gate.reached()
        second = asyncio.create_task(pipeline.complete(request(2, params=params)))
        await turns()
        gate.open()
        answers = [await first, await second]
        assert (answers[1].receipt.coalesced_with == "r1") == shares
        assert (answers[0].choices == answers[1].choices) == shares

    serve(main, gate)


@pytest.mark.parametrize("leaver", [0, 1])
def test_one_that_leaves_does_not_hurt_those_that_share_its_generation(leaver: int) -> None:
    gate = Gate(closed_from=5)

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        tasks = [asyncio.create_task(pipeline.complete(request(1)))]
        await gate.reached()
        tasks.append(asyncio.create_task(pipeline.complete(request(2))))
        await turns()
        tasks[leaver].cancel()
        await turns()
        gate.open()
        stayed = await tasks[1 - leaver]
        assert len(stayed.choices[0].token_ids) == 20
        assert engine.stats().total_generated_tokens == 20
        left = pipeline.receipt(f"r{leaver + 1}")
        assert left is not None
        assert left.finish_reasons == ("cancelled",)

    serve(main, gate)


@pytest.mark.parametrize("num_leavers", [1, 2])
@pytest.mark.parametrize("how", ["cancelled", "gone"])
def test_when_the_leader_leaves_early_who_waited_longest_has_the_work_in_its_receipt(
    num_leavers: int, how: str
) -> None:
    gate = Gate(closed_from=5)

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        tasks = [asyncio.create_task(pipeline.complete(request(1)))]
        await gate.reached()
        for number in (2, 3, 4):
            tasks.append(asyncio.create_task(pipeline.complete(request(number))))
            await turns()
        for number in range(1, num_leavers + 1):
            if how == "cancelled":
                assert pipeline.cancel(f"r{number}", "local")
            else:
                tasks[number - 1].cancel()
            await turns()
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

    serve(main, gate)


def test_when_all_have_left_the_generation_ends_and_who_comes_then_starts_anew() -> None:
    gate = Gate(closed_from=5)

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        tasks = [asyncio.create_task(pipeline.complete(request(1)))]
        await gate.reached()
        tasks.append(asyncio.create_task(pipeline.complete(request(2))))
        await turns()
        for task in tasks:
            task.cancel()
        await turns()
        late = asyncio.create_task(pipeline.complete(request(3)))
        await turns()
        gate.open()
        answer = await late
        assert answer.receipt.coalesced_with is None
        assert len(answer.choices[0].token_ids) == 20

    serve(main, gate)


# How far the older request is when the newer one comes: the step that is held, and its prompt's length.
STAGES = {"queue": (1, 20), "prefill": (2, 120), "decode": (6, 20)}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_newer_request_of_the_same_cursor_ends_the_older_one_wherever_it_is(
    stage: str, streamed: bool
) -> None:
    held_step, length = STAGES[stage]
    gate = Gate(closed_from=held_step)
    options = EngineOptions(step_tokens=32, max_num_seqs=1, speculation="off")

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        tasks = []
        if stage == "queue":
            tasks.append(asyncio.create_task(collect(pipeline, request(9, max_tokens=2))))
            await gate.reached()
        older = typed(1, "x" * length, max_tokens=100)
        older_task: asyncio.Task[Any] = asyncio.create_task(
            collect(pipeline, older) if streamed else pipeline.complete(older)
        )
        await (turns() if stage == "queue" else gate.reached())
        newer = asyncio.create_task(pipeline.complete(typed(2, "x" * length + "y", max_tokens=3)))
        await turns()
        gate.open()
        result = await older_task
        last: ChoiceDelta | Any = result[-1] if streamed else result.choices[0]
        assert last.finish_reason == "superseded"
        text = text_of(result) if streamed else last.text
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
        await asyncio.gather(*tasks)

    serve(main, gate, options)


def test_a_newer_request_that_asks_the_same_takes_the_generation_over() -> None:
    gate = Gate(closed_from=6)

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        older = asyncio.create_task(pipeline.complete(typed(1, "abc")))
        await gate.reached()
        newer = asyncio.create_task(pipeline.complete(typed(2, "abc")))
        await turns()
        superseded: Completion = await older
        assert superseded.choices[0].finish_reason == "superseded", "it need not wait for the step"
        gate.open()
        answer = await newer
        assert len(answer.choices[0].token_ids) == 20
        assert answer.choices[0].token_ids[:3] == superseded.choices[0].token_ids[:3] != ()
        assert engine.stats().total_generated_tokens == 20
        assert superseded.receipt.coalesced_with == "r2"
        assert answer.receipt.coalesced_with is None
        assert answer.receipt.num_computed_tokens > superseded.receipt.num_computed_tokens == 0

    serve(main, gate)


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
def test_whoever_is_not_the_same_cursor_supersedes_nobody(identity: Identity | None) -> None:
    gate = Gate(closed_from=4)

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        older = asyncio.create_task(pipeline.complete(typed(1, "abc")))
        await gate.reached()
        newer = asyncio.create_task(pipeline.complete(replace(typed(2, "abcd"), identity=identity)))
        await turns()
        gate.open()
        for task in (older, newer):
            assert (await task).choices[0].finish_reason == "length"

    serve(main, gate)


def test_requests_without_an_identity_never_supersede_each_other() -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        asked = [request(n, prompt=Document("abc" * n, "", "a.py")) for n in range(1, 6)]
        answers = await asyncio.gather(*(pipeline.complete(each) for each in asked))
        assert {answer.choices[0].finish_reason for answer in answers} <= {"length", "stop"}

    serve(main)


def test_a_completion_can_be_called_off_by_its_tenant_alone_and_only_while_it_runs() -> None:
    gate = Gate(closed_from=6)

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        task = asyncio.create_task(pipeline.complete(request(1)))
        await gate.reached()
        assert not pipeline.cancel("r1", "somebody else")
        assert not pipeline.cancel("r2", "local")
        assert pipeline.cancel("r1", "local")
        gate.open()
        answer = await task
        reason: FinishReason = answer.choices[0].finish_reason
        assert reason == "cancelled"
        assert answer.choices[0].text
        assert not pipeline.cancel("r1", "local")

    serve(main, gate)


def test_idle_work_that_is_shed_is_told_when_to_come_back() -> None:
    gate = Gate(closed_from=1)
    options = EngineOptions(step_tokens=16, max_num_seqs=1, max_waiting=4)

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        idle = asyncio.create_task(pipeline.complete(request(1, priority="idle")))
        await gate.reached()
        others = [asyncio.create_task(pipeline.complete(request(n, prompt="x" * n))) for n in range(2, 5)]
        await turns()
        gate.open()
        with pytest.raises(Overloaded) as refusal:
            await idle
        assert refusal.value.retry_after_s >= 1.0
        await asyncio.gather(*others)
        receipt = pipeline.receipt("r1")
        assert receipt is not None
        assert receipt.finish_reasons == ("shed",)

    serve(main, gate, options)


def test_in_a_crowd_windows_are_half_as_long_and_the_receipt_says_so() -> None:
    gate = Gate(closed_from=1)
    options = EngineOptions(step_tokens=64, max_num_seqs=1, max_waiting=8)
    text = "".join(f"line {number}\n" for number in range(160))

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        calm = asyncio.create_task(pipeline.complete(request(0, prompt=Document(text, ""), max_tokens=1)))
        await gate.reached()
        crowd = [asyncio.create_task(pipeline.complete(request(n, prompt="x" * n))) for n in range(1, 6)]
        await turns()
        late = asyncio.create_task(pipeline.complete(request(7, prompt=Document(text, ""), max_tokens=1)))
        await turns()
        gate.open()
        whole, half = (await calm).receipt, (await late).receipt
        assert (whole.ledger["window"], half.ledger["window"]) == (1.0, 0.5)
        assert half.num_prompt_tokens <= PipelineOptions().prefix_tokens // 2 < whole.num_prompt_tokens
        await asyncio.gather(*crowd)

    serve(main, gate, options)
