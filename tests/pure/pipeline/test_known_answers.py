"""Who asks exactly the same is told exactly the same, computed or not."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from babbler import Babbler
from running_pipeline import UNGUESSED, running_pipeline, streamed, text_of
from scripted_executor import ScriptedExecutor

from halfline.cache.exact import ExactAnswers
from halfline.cache.fragments import Fragments
from halfline.cache.memory import MemoryTier
from halfline.cache.store import Store
from halfline.pipeline.complete import CompletionPipeline
from halfline.request import Completion, CompletionRequest, Document, Identity, SamplingParams

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def answering(store: Store | None = None) -> AsyncIterator[tuple[CompletionPipeline, Babbler]]:
    """A pipeline that keeps its answers, and their fragments, in the store."""
    babbler, kept = Babbler(silences=True), store or Store(MemoryTier(1 << 24, 1e12))
    exact, fragments = ExactAnswers(kept, b"babbler"), Fragments(kept, b"babbler", 1e12)
    async with running_pipeline(babbler, None, UNGUESSED, exact=exact, fragments=fragments) as (pipeline, _):
        yield pipeline, babbler


def request(**changes: Any) -> CompletionRequest:
    base = CompletionRequest(id="r", prompt="def f(", params=SamplingParams(), max_tokens=6)
    return replace(base, **changes)


QUESTIONS = [
    request(),
    request(prompt="def g("),
    request(prompt="def f ("),
    request(prompt="not def f("),
    request(max_tokens=7),
    request(tenant="other"),
    request(echo=True),
    request(num_choices=2, params=SamplingParams(temperature=1.0, seed=1)),
    request(params=SamplingParams(temperature=1.0, seed=1)),
    request(params=SamplingParams(temperature=1.0, seed=2)),
    request(params=SamplingParams(temperature=0.9, seed=1)),
    request(params=SamplingParams(logprobs=2)),
    request(params=SamplingParams(logprobs=1)),
    request(params=SamplingParams(stop=("a",))),
    request(params=SamplingParams(ignore_eos=True)),
    request(params=SamplingParams(logit_bias={98: 3.0})),
    request(params=SamplingParams(repetition_penalty=1.5)),
    request(prompt=Document("if a < b:\n    ", "\n", "a.py")),
    request(prompt=Document("if a <= b:\n    ", "\n", "a.py")),
    request(prompt=Document("if b < a:\n    ", "\n", "a.py")),
    request(prompt=Document("if not a < b:\n    ", "\n", "a.py")),
    request(prompt=Document("if a < b:\n        ", "\n", "a.py")),
    request(prompt=Document("if a < b:\n    ", "\n", "b.rs")),
    request(prompt=Document("if a < b:\n    ", "\nelse", "a.py")),
    request(prompt=Document("if a < b:\n    ", "\n", "a.py"), postprocess=False),
    request(prompt=Document("if a < b:\n    ", "\n", "a.py"), min_confidence=0.2),
]


async def test_the_same_question_is_answered_without_a_step_and_with_the_same_answer() -> None:
    async with answering() as (pipeline, babbler):
        first = [await pipeline.complete(replace(each, caching="none")) for each in QUESTIONS]
        assert {answer.receipt.tier for answer in first} == {"miss"}
        for each in QUESTIONS:
            await pipeline.complete(replace(each, caching="refresh"))
        babbler.rows.clear()
        for each, computed in zip(QUESTIONS, first, strict=True):
            again = await pipeline.complete(each)
            assert again.choices == computed.choices
            assert (again.receipt.tier, again.receipt.num_computed_tokens) == ("exact", 0)
            deltas = await streamed(pipeline, each)
            for choice in computed.choices:
                assert text_of(deltas, choice.index) == choice.text
            assert {delta.tier for delta in deltas if delta.finish_reason} == {"exact"}
        assert babbler.rows == []


async def test_no_two_different_questions_have_one_address() -> None:
    """Each is asked when all others are known, and computes the answer that it has where nothing is known."""

    async with answering() as (pipeline, _):
        for each in QUESTIONS:
            alone = await pipeline.complete(replace(each, caching="none"))
            asked = await pipeline.complete(each)
            assert asked.receipt.tier != "exact"
            assert asked.choices == alone.choices
    assert all(one != other for one, other in combinations(QUESTIONS, 2))


@pytest.mark.parametrize(
    "changes",
    [
        {"params": SamplingParams(temperature=1.0)},
        {"caching": "none"},
        {"echo": True, "params": SamplingParams(logprobs=1)},
    ],
    ids=["drawn anew", "no-store", "scores of the prompt"],
)
async def test_what_must_not_be_kept_is_computed_each_time(changes: dict[str, Any]) -> None:
    async with answering() as (pipeline, babbler):
        for _ in range(2):
            babbler.rows.clear()
            answer = await pipeline.complete(request(**changes))
            assert answer.receipt.tier == "miss" and babbler.rows


async def test_no_store_leaves_nothing_for_the_next_keystroke_either() -> None:
    async with answering() as (pipeline, _):
        at_cursor = request(prompt=Document("def f", "", "a.py"), identity=Identity("local", "ann", "a.py"))
        await pipeline.complete(replace(at_cursor, caching="none"))
        assert (await pipeline.complete(at_cursor)).receipt.tier == "miss"
        assert (await pipeline.complete(replace(at_cursor, caching="none"))).receipt.tier == "miss"
        assert (await pipeline.complete(replace(at_cursor, caching="refresh"))).receipt.tier == "miss"
        assert (await pipeline.complete(at_cursor)).receipt.tier == "exact"


async def test_streams_heed_it_too_and_one_that_is_left_changes_nothing() -> None:
    async with answering() as (pipeline, _):
        asked = request(params=SamplingParams(ignore_eos=True), max_tokens=30)
        secret = await streamed(pipeline, replace(asked, caching="none"))
        known = await streamed(pipeline, asked)
        assert {delta.tier for delta in (secret[-1], known[-1])} == {"miss"}
        for caching in ("refresh", "none"):
            async for _ in pipeline.stream(replace(asked, caching=caching)):
                break  # its reader is gone
            again = await streamed(pipeline, asked)
            assert (again[-1].tier, text_of(again)) == ("exact", text_of(known))


async def test_an_answer_that_was_known_in_its_beginning_is_kept_whole() -> None:
    async with answering() as (pipeline, _):
        shorter = request(params=SamplingParams(ignore_eos=True), max_tokens=4)
        await pipeline.complete(shorter)
        longer = replace(shorter, max_tokens=9)
        begun = await pipeline.complete(longer)
        assert begun.receipt.tier == "continued"
        again = await pipeline.complete(longer)
        assert (again.receipt.tier, again.choices) == ("exact", begun.choices)


async def test_a_cancelled_answer_is_not_kept() -> None:
    async with answering() as (pipeline, _):
        asked = request(params=SamplingParams(ignore_eos=True), max_tokens=100)
        async for _ in pipeline.stream(asked):
            break
        pipeline.cancel("r", "local")
        again = await pipeline.complete(asked)
        assert again.receipt.tier in ("miss", "continued")
        assert again.choices[0].finish_reason == "length"


async def test_an_address_is_told_of_what_is_kept_and_holds_what_was_replied() -> None:
    store = Store(MemoryTier(1 << 24, 1e12))
    fragments = Fragments(store, b"babbler", 1e12)

    async with answering(store) as (pipeline, _):
        asked = request(params=SamplingParams(ignore_eos=True), max_tokens=100, num_choices=2)
        cut = asyncio.ensure_future(pipeline.complete(asked))
        while not pipeline.cancel("r", "local"):
            await asyncio.sleep(0)
        assert (await cut).receipt.address is None
        deltas = await streamed(pipeline, replace(asked, max_tokens=3))
        receipt = pipeline.receipt("r")
        assert deltas and receipt is not None and receipt.address is None
        computed = await pipeline.complete(asked)
        again = await pipeline.complete(asked)
        assert again.receipt.tier == "exact"
        for answer in (computed, again):
            assert answer.receipt.address is not None
            fragment = await fragments.get("local", answer.receipt.address)
            assert fragment is not None
            told = [choice["text"] for choice in json.loads(fragment.body)["choices"]]
            assert told == [choice.text for choice in answer.choices]


async def test_no_two_different_questions_have_their_replies_at_one_address() -> None:
    store = Store(MemoryTier(1 << 24, 1e12))
    fragments = Fragments(store, b"babbler", 1e12)

    async with answering(store) as (pipeline, _):
        replies: dict[str, tuple[str, str]] = {}
        for each in QUESTIONS:
            answer = await pipeline.complete(each)
            assert answer.receipt.address not in (None, *replies)
            replies[answer.receipt.address or ""] = each.tenant, answer.choices[0].text
        for address, (tenant, text) in replies.items():
            fragment = await fragments.get(tenant, address)
            assert fragment is not None and json.loads(fragment.body)["choices"][0]["text"] == text


async def test_a_store_outlives_the_pipeline_that_filled_it() -> None:
    store = Store(MemoryTier(1 << 24, 1e12))
    async with answering(store) as (pipeline, _):
        computed = await pipeline.complete(request())
    async with answering(store) as (pipeline, _):
        known = await pipeline.complete(request())
    assert known.choices == computed.choices
    assert (computed.receipt.tier, known.receipt.tier) == ("miss", "exact")


async def test_an_answer_that_other_rules_had_cut_elsewhere_is_computed_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store(MemoryTier(1 << 24, 1e12))
    asked = request(prompt=Document("print(", ")\nrest()\n", "a.py"), max_tokens=24)

    async def answer() -> Completion:
        executor = ScriptedExecutor("'hi')\nmore()\n", len("print("))
        async with running_pipeline(executor, exact=ExactAnswers(store, b"script")) as (pipeline, _):
            return await pipeline.complete(asked)

    before = await answer()
    assert (await answer()).receipt.tier == "exact"
    monkeypatch.setattr("halfline.pipeline.postprocess.postprocessing.editor_filters", lambda around: [])
    after = await answer()
    assert (before.choices[0].text, before.receipt.tier) == ("'hi'", "miss")
    assert (after.choices[0].text, after.receipt.tier) == ("'hi')\nmore()\n", "miss")
