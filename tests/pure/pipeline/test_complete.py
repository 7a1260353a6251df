"""One request through the whole pipeline, on an engine without a model."""

import asyncio
import gc
import itertools
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor, hash_logits
from halfline.engine.options import EngineOptions
from halfline.errors import BadRequest, EngineFailed, PromptTooLong, UnusableLogits
from halfline.model.executor import Batch, Outputs
from halfline.model.random_model import BOS_ID, EOS_ID, byte_vocab
from halfline.model.reference import with_logits
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.options import PipelineOptions
from halfline.request import Bounds, ChoiceDelta, CompletionRequest, Document, SamplingParams
from halfline.sampling.sampler import Sampler, score
from halfline.text.tokenizer import Tokenizer

VOCAB = 258
TOKENIZER = Tokenizer(byte_vocab())
PROMPT = "The quick brown fox jumps over the lazy dog"
PATIENCE_S = 30.0


class ScriptedExecutor(HashExecutor):
    """Answers every prompt of `num_prompt` tokens with the script, then with EOS for ever."""

    def __init__(self, script: str, num_prompt: int) -> None:
        super().__init__(64)
        self._script = [*script.encode(), EOS_ID]
        self._num_prompt = num_prompt

    def run(self, batch: Batch) -> Outputs | None:
        outputs = super().run(batch)
        if outputs is None:
            return None
        for logits, row in zip(outputs.logits, batch.logit_rows.tolist(), strict=True):
            sequence = int(np.searchsorted(batch.row_starts, row, side="right")) - 1
            place = int(batch.first_places[sequence]) + row - int(batch.row_starts[sequence])
            logits[:] = -1.0
            logits[self._script[min(place + 1 - self._num_prompt, len(self._script) - 1)]] = 1.0
        return with_logits(outputs, outputs.logits)


def request(prompt: str | tuple[int, ...] | Document = PROMPT, **changes: Any) -> CompletionRequest:
    base = CompletionRequest(id="r1", prompt=prompt, params=SamplingParams(), max_tokens=24)
    return replace(base, **changes)


def serve(
    main: Callable[[CompletionPipeline, EngineHandle], Coroutine[None, None, None]],
    executor: HashExecutor | None = None,
    options: PipelineOptions | None = None,
) -> None:
    executor = executor or HashExecutor(64)

    async def patient() -> None:
        engine = EngineHandle(executor, EngineOptions(step_tokens=64, max_num_seqs=16))
        engine.start()
        pipeline = CompletionPipeline(engine, TOKENIZER, executor.spec, options or PipelineOptions())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await main(pipeline, engine)
        finally:
            await asyncio.to_thread(engine.close, 0.0)

    asyncio.run(patient())


def alone(prompt: str, max_tokens: int, params: SamplingParams, stream: int = 0) -> list[int]:
    tokens = list(prompt.encode())
    sampler = Sampler(params, tokens, stream)
    for _ in range(max_tokens):
        token_id = sampler.sample(hash_logits(tokens, VOCAB)).token_id
        if token_id == EOS_ID:
            break
        tokens.append(token_id)
    return tokens[len(prompt.encode()) :]


async def settled(pipeline: CompletionPipeline) -> None:
    """The engine has taken in all that was asked of it before: messages are handled in order."""
    await pipeline.complete(CompletionRequest(id="after", prompt="x", params=SamplingParams(), max_tokens=1))


def test_the_text_is_what_the_model_says_alone() -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        completion = await pipeline.complete(request())
        expected = alone(PROMPT, 24, SamplingParams())
        assert completion.choices[0].token_ids == tuple(expected)
        assert completion.choices[0].text == TOKENIZER.decode(expected, continues=True)
        assert completion.choices[0].finish_reason == "length"
        assert completion.choices[0].logprobs is None
        receipt = completion.receipt
        assert receipt == pipeline.receipt("r1")
        assert receipt.num_prompt_tokens == len(PROMPT)
        assert (receipt.num_reused_tokens, receipt.num_generated_tokens) == (0, 24)
        assert receipt.num_computed_tokens == len(PROMPT) + 23
        assert receipt.finish_reasons == ("length",)
        assert receipt.total_ms >= receipt.queue_ms + receipt.prefill_ms + receipt.decode_ms > 0
        assert receipt.ledger["mode"] == "raw"

    serve(main)


def test_streamed_deltas_join_to_the_completion() -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        asked = request(params=SamplingParams(logprobs=2, temperature=1.0, seed=5), num_choices=3)
        whole = await pipeline.complete(asked)
        deltas = [delta async for delta in pipeline.stream(replace(asked, id="r2"))]
        for choice in whole.choices:
            own = [delta for delta in deltas if delta.index == choice.index]
            assert "".join(delta.text for delta in own) == choice.text
            assert tuple(token for delta in own for token in delta.token_ids) == choice.token_ids
            assert tuple(each for delta in own for each in delta.logprobs or ()) == choice.logprobs
            assert [delta.finish_reason for delta in own[:-1]] == [None] * (len(own) - 1)
            assert own[-1].finish_reason == choice.finish_reason

    serve(main)


def test_choices_differ_by_their_own_draws_and_share_the_prompt() -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        params = SamplingParams(temperature=1.0, seed=5)
        completion = await pipeline.complete(request(params=params, num_choices=4))
        for choice in completion.choices:
            assert choice.token_ids == tuple(alone(PROMPT, 24, params, choice.index))
        assert len({choice.token_ids for choice in completion.choices}) == 4
        assert completion.receipt.num_reused_tokens == 0, "what siblings share was computed by this request"
        assert engine.stats().total_reused_tokens == 3 * (len(PROMPT) - 1)

    serve(main)


def test_a_repeated_prompt_says_how_much_it_reused() -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        params = SamplingParams(temperature=1.0, seed=5)
        cold = await pipeline.complete(request(params=params))
        warm = await pipeline.complete(request(id="r2", params=params))
        assert warm.choices == cold.choices
        assert warm.receipt.num_reused_tokens == len(PROMPT) - 1
        other = await pipeline.complete(request(id="r3", tenant="somebody else", params=params))
        assert other.choices == cold.choices
        assert other.receipt.num_reused_tokens == 0

    serve(main)


def test_logprobs_are_the_models_with_the_alternatives_spelled_out() -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        completion = await pipeline.complete(request(params=SamplingParams(logprobs=3), max_tokens=2))
        logprobs = completion.choices[0].logprobs
        assert logprobs is not None
        expected = score(hash_logits(list(PROMPT.encode()), VOCAB), completion.choices[0].token_ids[0], 3)
        assert logprobs[0].logprob == expected.logprob
        assert [(token_id, logprob) for token_id, _, logprob in logprobs[0].top] == list(expected.top)
        assert logprobs[0].top[0][:2] == (logprobs[0].token_id, logprobs[0].text)

    serve(main)


def test_an_echo_comes_first_and_is_followed_by_the_text() -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        plain = await pipeline.complete(request())
        deltas = [delta async for delta in pipeline.stream(request(id="r2", echo=True, num_choices=2))]
        assert [delta.text for delta in deltas[:2]] == [PROMPT, PROMPT]
        assert {delta.index for delta in deltas[:2]} == {0, 1}
        own = "".join(delta.text for delta in deltas if delta.index == 0)
        assert own == PROMPT + plain.choices[0].text

    serve(main)


@pytest.mark.parametrize("max_tokens", [0, 3])
def test_echoed_logprobs_score_the_prompt_the_same_warm_and_cold(max_tokens: int) -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        asked = request(echo=True, params=SamplingParams(logprobs=1), max_tokens=max_tokens)
        cold = await pipeline.complete(asked)
        warm = await pipeline.complete(replace(asked, id="r2"))
        assert warm.choices == cold.choices
        choice = cold.choices[0]
        assert choice.logprobs is not None
        assert choice.text.startswith(PROMPT)
        assert len(choice.logprobs) == len(choice.token_ids) == len(PROMPT) + max_tokens
        assert choice.logprobs[0].logprob is None
        tokens = list(PROMPT.encode())
        for place in range(1, len(tokens)):
            expected = score(hash_logits(tokens[:place], VOCAB), tokens[place], 1)
            assert choice.logprobs[place].logprob == expected.logprob
        assert choice.finish_reason == "length"

    serve(main)


@pytest.mark.parametrize("echo", [True, False])
def test_a_token_s_offset_is_where_its_text_stands_in_the_choice(echo: bool) -> None:
    prompt = (BOS_ID, *"🎉x".encode())
    echoed, num_echoed = ([0, 0, 0, 0, 0, 1], 2) if echo else ([], 0)
    offsets = echoed + [num_echoed + place for place in (0, 0, 1, 2, 2, 2, 2, 3)]

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        asked = request(prompt, echo=echo, params=SamplingParams(logprobs=0))
        choice = (await pipeline.complete(asked)).choices[0]
        assert choice.text == ("🎉x" if echo else "") + "é!🎉b"
        assert choice.logprobs is not None
        assert [each.offset for each in choice.logprobs] == offsets
        for each in choice.logprobs:
            if each.text.isascii() and each.token_id != BOS_ID:
                assert choice.text[each.offset] == each.text

    serve(main, ScriptedExecutor("é!🎉b", len(prompt)))


def test_a_prompt_of_one_token_is_echoed_unscored() -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        asked = request("x", echo=True, params=SamplingParams(logprobs=0), max_tokens=0)
        choice = (await pipeline.complete(asked)).choices[0]
        assert choice.text == "x"
        assert choice.logprobs is not None and [each.logprob for each in choice.logprobs] == [None]

    serve(main)


def test_a_stop_string_is_never_shown_and_stops_the_engine_at_once() -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        completion = await pipeline.complete(request(params=SamplingParams(stop=("\n\ndef", "zzz"))))
        choice = completion.choices[0]
        assert (choice.text, choice.finish_reason) == ("return 1\n", "stop")
        assert bytes(choice.token_ids).decode() == "return 1\n"
        assert completion.receipt.num_generated_tokens == len("return 1\n\n\ndef")

    serve(main, ScriptedExecutor("return 1\n\n\ndef g():", len(PROMPT)))


def test_eos_ends_the_text_unless_it_is_ignored() -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        choice = (await pipeline.complete(request())).choices[0]
        assert (choice.text, choice.token_ids, choice.finish_reason) == ("é!", tuple("é!".encode()), "stop")
        ignored = await pipeline.complete(request(params=SamplingParams(ignore_eos=True), max_tokens=6))
        assert ignored.choices[0].text == "é!"
        assert ignored.choices[0].token_ids[3:] == (EOS_ID,) * 3
        assert ignored.choices[0].finish_reason == "length"

    serve(main, ScriptedExecutor("é!", len(PROMPT)))


def test_an_answer_that_stands_further_down_comes_in_fewer_steps_and_is_the_same() -> None:
    said = "total = count_of(things)"
    document = Document("x = 1\n", f"\ndef other():\n    {said}\n\n    x = 1\n{said}\n", "a.py")
    answers: dict[str, tuple[str, int, int]] = {}

    async def answer(speculation: Literal["auto", "off"]) -> None:
        executor = ScriptedExecutor(said, len("x = 1\n"))
        ticks = (
            itertools.count()
        )  # every step takes as long, so that rows are cheap whatever this machine does
        options = EngineOptions(speculation=speculation)
        engine = EngineHandle(executor, options, lambda: next(ticks) * 1e-3)
        engine.start()
        pipeline = CompletionPipeline(engine, TOKENIZER, executor.spec, PipelineOptions())
        try:
            async with asyncio.timeout(PATIENCE_S):
                completion = await pipeline.complete(request(document))
        finally:
            await asyncio.to_thread(engine.close, 0.0)
        receipt = completion.receipt
        assert receipt.drafted_tokens.keys() == receipt.accepted_tokens.keys()
        num_accepted = receipt.accepted_tokens.get("given", 0)
        answers[speculation] = (completion.choices[0].text, num_accepted, engine.stats().total_steps)

    for speculation in ("off", "auto"):
        asyncio.run(answer(speculation))  # type: ignore[arg-type]
    assert answers["auto"][0] == answers["off"][0] != ""
    assert answers["off"][1] == 0
    assert answers["auto"][1] > 5
    assert answers["auto"][2] == answers["off"][2] - answers["auto"][1]


def test_an_editor_is_not_given_what_already_stands_behind_the_cursor() -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        completion = await pipeline.complete(request(Document("print(", ")\nrest()\n", "a.py")))
        choice = completion.choices[0]
        assert (choice.text, choice.finish_reason) == ("'hi'", "stop")
        assert completion.receipt.ledger["mode"] == "editor"
        assert completion.receipt.ledger["prefix_characters_left_out"] == 0

    serve(main, ScriptedExecutor("'hi')\nmore()\n", len("print(")))


def test_a_receipt_says_which_rules_cut_how_much_and_nothing_is_cut_for_who_wants_it_so() -> None:
    document = Document("print(", ")\nrest()\n", "a.py")

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        trimmed = await pipeline.complete(request(document))
        assert trimmed.receipt.cut_characters == {"suffix_overlap": 2}
        assert trimmed.receipt.ended_by == ("suffix_overlap",)
        assert trimmed.receipt.confidence is None
        whole = await pipeline.complete(request(document, id="r2", postprocess=False))
        assert whole.choices[0].text == "'hi')\nmore()\n"
        assert (whole.receipt.cut_characters, whole.receipt.ended_by) == ({}, (None,))
        # A rule may end an answer of which nothing is kept back.
        timed = request(document, id="r3", postprocess=False, bounds=Bounds(line_time_ms=0))
        late = await pipeline.complete(timed)
        assert late.choices[0].text == "'hi')\n"
        assert (late.receipt.cut_characters, late.receipt.ended_by) == ({}, ("line_time",))

    serve(main, ScriptedExecutor("'hi')\nmore()\n", len("print(")))


def test_an_answer_that_the_model_does_not_believe_in_is_not_shown_and_not_computed_to_its_end() -> None:
    document = Document("print(", ")\nrest()\n", "a.py")

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        shown = await pipeline.complete(request(document, min_confidence=1e-6))
        confidence = shown.receipt.confidence
        assert confidence is not None
        assert shown.choices[0].text == "'hi'"
        assert shown.choices[0].logprobs is None, "nobody asked to see them"
        hidden = await pipeline.complete(request(document, id="r2", min_confidence=confidence * 1.01))
        assert (hidden.choices[0].text, hidden.choices[0].finish_reason) == ("", "stop")
        assert hidden.receipt.confidence == confidence
        assert "min_confidence" in hidden.receipt.cut_characters
        again = await pipeline.complete(request(document, id="r3", min_confidence=confidence))
        assert again.choices[0].text == "'hi'"

    serve(main, ScriptedExecutor("'hi')\nmore()\n", len("print(")))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"prompt": "x" * 2000}, PromptTooLong),
        ({"max_tokens": 2000}, PromptTooLong),
        ({"params": SamplingParams(logit_bias={VOCAB: 1.0})}, BadRequest),
        ({"prompt": (VOCAB,)}, BadRequest),
    ],
)
def test_what_is_wrong_is_said_before_the_first_delta(
    changes: dict[str, Any], error: type[Exception]
) -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        with pytest.raises(error):
            await anext(pipeline.stream(request(**changes)))
        assert engine.stats().total_steps == 0
        assert pipeline.receipt("r1") is None

    serve(main)


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


async def _forget(deltas: AsyncGenerator[ChoiceDelta, None]) -> None:
    async for _ in deltas:
        break
    del deltas
    gc.collect()
    await asyncio.sleep(0)


@pytest.mark.parametrize("leave", [_close, _cancel_task])
def test_a_stream_that_is_left_frees_its_blocks_and_leaves_a_receipt(
    leave: Callable[[AsyncGenerator[ChoiceDelta, None]], Coroutine[None, None, None]],
) -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        await leave(pipeline.stream(request("abc", max_tokens=900, params=SamplingParams(ignore_eos=True))))
        await settled(pipeline)
        assert engine.stats().num_held_blocks == 0
        receipt = pipeline.receipt("r1")
        assert receipt is not None
        assert receipt.finish_reasons == ("cancelled",)
        assert 0 < receipt.num_generated_tokens < 900
        assert receipt.num_computed_tokens >= 3

    serve(main)


def test_a_dropped_iterator_is_cancelled_without_being_closed() -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        asked = request("abc", max_tokens=8000, params=SamplingParams(ignore_eos=True))
        await _forget(pipeline.stream(asked))
        while engine.stats().num_running:  # the event loop closes it some turns later
            await settled(pipeline)
        receipt = pipeline.receipt("r1")
        assert receipt is not None and receipt.finish_reasons == ("cancelled",)

    serve(main, HashExecutor(512))


def test_when_the_engine_breaks_the_running_fail_and_the_next_is_refused() -> None:
    broken = threading.Event()

    def breaks(batch: Batch) -> None:
        if broken.is_set():
            raise RuntimeError("the arena is on fire")

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
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

    serve(main, HashExecutor(128, before_run=breaks))


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
def test_a_model_that_overflows_fails_the_request_by_its_own_reason_and_no_other(
    bad: float, changes: dict[str, Any]
) -> None:
    class Overflowing(HashExecutor):
        overflows = True

        def run(self, batch: Batch) -> Outputs | None:
            outputs = super().run(batch)
            if outputs is None or not self.overflows:
                return outputs
            return with_logits(outputs, np.full_like(outputs.logits, bad))

    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        with pytest.raises(UnusableLogits, match=rf"the model produced .* largest logit is {bad}"):
            await pipeline.complete(request(**changes))
        executor.overflows = False
        receipt = pipeline.receipt("r1")
        assert receipt is not None and "failed" in receipt.finish_reasons
        assert (await pipeline.complete(request(**changes))).choices, "the engine goes on"

    executor = Overflowing(64)
    serve(main, executor)


def test_only_the_latest_receipts_are_kept() -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        for number in range(4):
            await pipeline.complete(request(id=f"r{number}", max_tokens=1))
        assert [pipeline.receipt(f"r{number}") is None for number in range(4)] == [True, True, False, False]

    serve(main, options=PipelineOptions(kept_receipts=2))


def test_there_is_no_receipt_while_a_request_runs() -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle) -> None:
        deltas = pipeline.stream(request(max_tokens=100))
        await anext(deltas)
        assert pipeline.receipt("r1") is None
        await deltas.aclose()
        assert pipeline.receipt("r1") is not None

    serve(main)
