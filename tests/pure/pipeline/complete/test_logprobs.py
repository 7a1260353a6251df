"""Logprobs and echoed prompts: what the model thinks of which token, and where the token stands."""

from dataclasses import replace

import pytest
from character_work import VOCAB
from running_pipeline import PROMPT, request, running_pipeline, streamed, text_of
from scripted_executor import ScriptedExecutor

from halfline.engine.hash_executor import hash_logits
from halfline.model.random_model import BOS_ID
from halfline.request import SamplingParams
from halfline.sampling.sampler import score

pytestmark = pytest.mark.anyio


async def test_logprobs_are_the_models_with_the_alternatives_spelled_out() -> None:
    async with running_pipeline() as (pipeline, _):
        completion = await pipeline.complete(request(params=SamplingParams(logprobs=3), max_tokens=2))
        logprobs = completion.choices[0].logprobs
        assert logprobs is not None
        expected = score(hash_logits(list(PROMPT.encode()), VOCAB), completion.choices[0].token_ids[0], 3)
        assert logprobs[0].logprob == expected.logprob
        assert [(token_id, logprob) for token_id, _, logprob in logprobs[0].top] == list(expected.top)
        assert logprobs[0].top[0][:2] == (logprobs[0].token_id, logprobs[0].text)


async def test_an_echo_comes_first_and_is_followed_by_the_text() -> None:
    async with running_pipeline() as (pipeline, _):
        plain = await pipeline.complete(request())
        deltas = await streamed(pipeline, request(id="r2", echo=True, num_choices=2))
        assert [delta.text for delta in deltas[:2]] == [PROMPT, PROMPT]
        assert {delta.index for delta in deltas[:2]} == {0, 1}
        assert text_of(deltas) == PROMPT + plain.choices[0].text


@pytest.mark.parametrize("max_tokens", [0, 3])
async def test_echoed_logprobs_score_the_prompt_the_same_warm_and_cold(max_tokens: int) -> None:
    async with running_pipeline() as (pipeline, _):
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


@pytest.mark.parametrize("echo", [True, False])
async def test_a_token_s_offset_is_where_its_text_stands_in_the_choice(echo: bool) -> None:
    prompt = (BOS_ID, *"🎉x".encode())
    echoed, num_echoed = ([0, 0, 0, 0, 0, 1], 2) if echo else ([], 0)
    offsets = echoed + [num_echoed + place for place in (0, 0, 1, 2, 2, 2, 2, 3)]
    async with running_pipeline(ScriptedExecutor("é!🎉b", len(prompt))) as (pipeline, _):
        asked = request(prompt, echo=echo, params=SamplingParams(logprobs=0))
        choice = (await pipeline.complete(asked)).choices[0]
        assert choice.text == ("🎉x" if echo else "") + "é!🎉b"
        assert choice.logprobs is not None
        assert [each.offset for each in choice.logprobs] == offsets
        for each in choice.logprobs:
            if each.text.isascii() and each.token_id != BOS_ID:
                assert choice.text[each.offset] == each.text


async def test_a_prompt_of_one_token_is_echoed_unscored() -> None:
    async with running_pipeline() as (pipeline, _):
        asked = request("x", echo=True, params=SamplingParams(logprobs=0), max_tokens=0)
        choice = (await pipeline.complete(asked)).choices[0]
        assert choice.text == "x"
        assert choice.logprobs is not None and [each.logprob for each in choice.logprobs] == [None]
