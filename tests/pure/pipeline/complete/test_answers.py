"""What is answered is what the model says alone, whole and streamed, for each choice."""

import itertools
from dataclasses import replace
from typing import Any, Literal

import pytest
from character_work import VOCAB
from running_pipeline import PROMPT, TOKENIZER, request, running_pipeline, streamed, text_of
from scripted_executor import ScriptedExecutor

from halfline.engine.hash_executor import hash_logits
from halfline.engine.options import EngineOptions
from halfline.errors import BadRequest, PromptTooLong
from halfline.model.random_model import EOS_ID
from halfline.request import Document, SamplingParams
from halfline.sampling.sampler import Sampler

pytestmark = pytest.mark.anyio


def alone(prompt: str, max_tokens: int, params: SamplingParams, stream: int = 0) -> list[int]:
    """The bytes that follow when nothing else exists."""
    tokens = list(prompt.encode())
    sampler = Sampler(params, tokens, stream)
    for _ in range(max_tokens):
        token_id = sampler.sample(hash_logits(tokens, VOCAB)).token_id
        if token_id == EOS_ID:
            break
        tokens.append(token_id)
    return tokens[len(prompt.encode()) :]


async def test_the_text_is_what_the_model_says_alone() -> None:
    async with running_pipeline() as (pipeline, _):
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


async def test_streamed_deltas_join_to_the_completion() -> None:
    async with running_pipeline() as (pipeline, _):
        asked = request(params=SamplingParams(logprobs=2, temperature=1.0, seed=5), num_choices=3)
        whole = await pipeline.complete(asked)
        deltas = await streamed(pipeline, replace(asked, id="r2"))
        for choice in whole.choices:
            own = [delta for delta in deltas if delta.index == choice.index]
            assert text_of(own, choice.index) == choice.text
            assert tuple(token for delta in own for token in delta.token_ids) == choice.token_ids
            assert tuple(each for delta in own for each in delta.logprobs or ()) == choice.logprobs
            assert [delta.finish_reason for delta in own[:-1]] == [None] * (len(own) - 1)
            assert own[-1].finish_reason == choice.finish_reason


async def test_choices_differ_by_their_own_draws_and_share_the_prompt() -> None:
    async with running_pipeline() as (pipeline, engine):
        params = SamplingParams(temperature=1.0, seed=5)
        completion = await pipeline.complete(request(params=params, num_choices=4))
        for choice in completion.choices:
            assert choice.token_ids == tuple(alone(PROMPT, 24, params, choice.index))
        assert len({choice.token_ids for choice in completion.choices}) == 4
        assert completion.receipt.num_reused_tokens == 0, "what siblings share was computed by this request"
        assert engine.stats().total_reused_tokens == 3 * (len(PROMPT) - 1)


async def test_a_repeated_prompt_says_how_much_it_reused() -> None:
    async with running_pipeline() as (pipeline, _):
        params = SamplingParams(temperature=1.0, seed=5)
        cold = await pipeline.complete(request(params=params))
        warm = await pipeline.complete(request(id="r2", params=params))
        assert warm.choices == cold.choices
        assert warm.receipt.num_reused_tokens == len(PROMPT) - 1
        other = await pipeline.complete(request(id="r3", tenant="somebody else", params=params))
        assert other.choices == cold.choices
        assert other.receipt.num_reused_tokens == 0


async def test_a_stop_string_is_never_shown_and_stops_the_engine_at_once() -> None:
    async with running_pipeline(ScriptedExecutor("return 1\n\n\ndef g():", len(PROMPT))) as (pipeline, _):
        completion = await pipeline.complete(request(params=SamplingParams(stop=("\n\ndef", "zzz"))))
        choice = completion.choices[0]
        assert (choice.text, choice.finish_reason) == ("return 1\n", "stop")
        assert bytes(choice.token_ids).decode() == "return 1\n"
        assert completion.receipt.num_generated_tokens == len("return 1\n\n\ndef")


async def test_eos_ends_the_text_unless_it_is_ignored() -> None:
    async with running_pipeline(ScriptedExecutor("é!", len(PROMPT))) as (pipeline, _):
        choice = (await pipeline.complete(request())).choices[0]
        assert (choice.text, choice.token_ids, choice.finish_reason) == ("é!", tuple("é!".encode()), "stop")
        ignored = await pipeline.complete(request(params=SamplingParams(ignore_eos=True), max_tokens=6))
        assert ignored.choices[0].text == "é!"
        assert ignored.choices[0].token_ids[3:] == (EOS_ID,) * 3
        assert ignored.choices[0].finish_reason == "length"


async def test_an_answer_that_stands_further_down_comes_in_fewer_steps_and_is_the_same() -> None:
    said = "total = count_of(things)"
    document = Document("x = 1\n", f"\ndef other():\n    {said}\n\n    x = 1\n{said}\n", "a.py")

    async def answer(speculation: Literal["auto", "off"]) -> tuple[str, int, int]:
        """The text, how many of its tokens were guessed, and the steps that it took."""
        ticks = (
            itertools.count()
        )  # every step takes as long, so that rows are cheap whatever this machine does
        async with running_pipeline(
            ScriptedExecutor(said, len("x = 1\n")),
            engine_options=EngineOptions(speculation=speculation),
            clock=lambda: next(ticks) * 1e-3,
        ) as (pipeline, engine):
            completion = await pipeline.complete(request(document))
        receipt = completion.receipt
        assert receipt.drafted_tokens.keys() == receipt.accepted_tokens.keys()
        num_accepted = receipt.accepted_tokens.get("given", 0)
        return completion.choices[0].text, num_accepted, engine.stats().total_steps

    text, num_accepted, num_steps = await answer("auto")
    assert text != "" and num_accepted > 5
    assert await answer("off") == (text, 0, num_steps + num_accepted)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"prompt": "x" * 2000}, PromptTooLong),
        ({"max_tokens": 2000}, PromptTooLong),
        ({"params": SamplingParams(logit_bias={VOCAB: 1.0})}, BadRequest),
        ({"prompt": (VOCAB,)}, BadRequest),
    ],
)
async def test_what_is_wrong_is_said_before_the_first_delta(
    changes: dict[str, Any], error: type[Exception]
) -> None:
    async with running_pipeline() as (pipeline, engine):
        with pytest.raises(error):
            await anext(pipeline.stream(request(**changes)))
        assert engine.stats().total_steps == 0
        assert pipeline.receipt("r1") is None
