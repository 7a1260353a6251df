"""What was predicted is not computed again, and nothing is ever answered that would not be computed."""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest
from babbler import Babbler
from gate import Gate
from running_pipeline import UNGUESSED, others_go_on, running_pipeline, streamed

from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.foresight import Errand
from halfline.pipeline.options import PipelineOptions
from halfline.request import Completion, CompletionRequest, Document, Identity, SamplingParams

pytestmark = pytest.mark.anyio

MUCH_PATIENCE_S = 1800.0
ANN = Identity("local", "ann", "a.py")


@asynccontextmanager
async def babbling(
    options: PipelineOptions | None = None,
) -> AsyncIterator[tuple[CompletionPipeline, Babbler]]:
    babbler = Babbler()
    async with running_pipeline(babbler, options, UNGUESSED) as (pipeline, _):
        yield pipeline, babbler


def at_cursor(number: int, prefix: str, suffix: str = "", **changes: Any) -> CompletionRequest:
    base = CompletionRequest(
        id=f"r{number}",
        prompt=Document(prefix, suffix, "a.py"),
        params=SamplingParams(),
        max_tokens=8,
        identity=ANN,
        postprocess=False,
    )
    return replace(base, **changes)


def texts(answer: Completion) -> tuple[str, str]:
    return answer.choices[0].text, answer.choices[0].finish_reason


async def test_typing_what_was_predicted_computes_only_what_is_missing_behind_it() -> None:
    async with babbling() as (pipeline, babbler):
        first = await pipeline.complete(at_cursor(1, "def f"))
        text = first.choices[0].text
        assert (first.receipt.tier, first.choices[0].finish_reason) == ("miss", "length")
        babbler.rows.clear()
        second = await pipeline.complete(at_cursor(2, "def f" + text[:3]))
        assert second.receipt.tier == "continued"
        assert second.choices[0].text.startswith(text[3:])
        assert second.receipt.num_known_tokens == 5
        assert second.receipt.num_generated_tokens == 8
        assert second.receipt.num_computed_tokens == sum(babbler.rows) == 3, "one for each missing token"
        again = await pipeline.complete(at_cursor(3, "def f" + text[:3]))
        assert again.choices == second.choices


async def test_what_is_known_to_the_end_of_the_answer_costs_no_step() -> None:
    async with babbling() as (pipeline, babbler):
        stops = SamplingParams(stop=("\n",))
        for number in range(100):
            first = await pipeline.complete(at_cursor(number, f"line {number}", params=stops, max_tokens=40))
            if first.choices[0].finish_reason == "stop" and len(first.choices[0].text) > 2:
                break
        babbler.rows.clear()
        text = first.choices[0].text
        for place in range(len(text) + 1):
            prefix = f"line {number}" + text[:place]
            answer = await pipeline.complete(at_cursor(place + 200, prefix, params=stops, max_tokens=40))
            assert texts(answer) == (text[place:], "stop")
            receipt = answer.receipt
            assert (receipt.tier, receipt.num_computed_tokens) == ("typed", 0)
            assert receipt.num_reused_tokens == receipt.num_prompt_tokens
        deltas = await streamed(pipeline, at_cursor(999, prefix, params=stops, max_tokens=40))
        assert [(each.tier, each.finish_reason) for each in deltas] == [("typed", "stop")]
        assert babbler.rows == []


async def test_known_tokens_are_read_with_the_new_requests_own_limit_and_stops() -> None:
    async with babbling() as (pipeline, babbler):
        text = (await pipeline.complete(at_cursor(1, "x", max_tokens=30))).choices[0].text
        babbler.rows.clear()
        for length in range(1, 20):
            answer = await pipeline.complete(at_cursor(2, "x", max_tokens=length))
            assert texts(answer) == (text[:length], "length")
        stop = text[10:12]
        answer = await pipeline.complete(
            at_cursor(3, "x", params=SamplingParams(stop=(stop,)), max_tokens=30)
        )
        assert texts(answer) == (text[: text.index(stop)], "stop")
        assert babbler.rows == []


@pytest.mark.parametrize(
    "changes",
    [
        {"params": SamplingParams(temperature=1.0, seed=1)},
        {"params": SamplingParams(logprobs=1)},
        {"params": SamplingParams(repetition_penalty=1.1)},
        {"params": SamplingParams(logit_bias={97: 1.0})},
        {"num_choices": 2},
        {"tenant": "other"},
        {"priority": "batch"},
    ],
)
async def test_what_is_not_the_same_computation_is_computed(changes: dict[str, Any]) -> None:
    async with babbling() as (pipeline, _):
        await pipeline.complete(at_cursor(1, "def f"))
        for number in (2, 3):
            answer = await pipeline.complete(at_cursor(number, "def f", **changes))
            known = number == 3 and "tenant" in changes
            assert answer.receipt.tier == ("typed" if known else "miss")


async def test_with_suggestions_off_everything_is_computed() -> None:
    async with babbling(PipelineOptions(suggestions="off")) as (pipeline, _):
        first = await pipeline.complete(at_cursor(1, "def f"))
        second = await pipeline.complete(at_cursor(2, "def f"))
        assert first.choices == second.choices
        assert second.receipt.tier == "miss"
        assert second.receipt.num_computed_tokens == 2 + 8, "the forced text among it"


async def test_a_newer_keystroke_goes_on_with_the_tokens_of_the_older_that_it_replaces() -> None:
    async with babbling() as (pipeline, babbler):
        whole = (await pipeline.complete(at_cursor(0, "def f", tenant="other"))).choices[0].text
        babbler.before_run = gate = Gate(closed_from=5)
        babbler.rows.clear()
        older = asyncio.create_task(pipeline.complete(at_cursor(1, "def f")))
        await gate.reached()
        newer = asyncio.create_task(pipeline.complete(at_cursor(2, "def f" + whole[:2], max_tokens=6)))
        await others_go_on()
        gate.open()
        assert texts(await older) == (whole[:4], "superseded")
        answer = await newer
        assert texts(answer) == (whole[2:], "length")
        assert (answer.receipt.tier, answer.receipt.num_known_tokens) == ("continued", 2)
        # The prompt, three tokens behind it, the step that was stopped, and the four that were missing.
        assert babbler.rows == [5, 1, 1, 1, 1, 1, 1, 1, 1]


async def test_guesses_are_computed_as_one_batch_and_known_when_somebody_comes() -> None:
    async with babbling() as (pipeline, babbler):
        await pipeline.complete(at_cursor(1, "def f"))
        babbler.rows.clear()
        guesses = [at_cursor(2, "def f" + each) for each in "abca"]
        await pipeline.foresight.look_ahead(guesses, 8, Errand())
        assert len(babbler.rows) == 2 + 8, "all in the same steps"
        assert max(babbler.rows[2:]) <= 4, "one row for each different guess"
        babbler.rows.clear()
        for each in "abc":
            answer = await pipeline.complete(at_cursor(3, "def f" + each))
            assert answer.receipt.tier == "typed"
        await pipeline.foresight.look_ahead(guesses, 8, Errand())
        assert babbler.rows == []
        assert pipeline.receipt("r2") is None, "nobody asked"


def edit(random: Random, text: str, cursor: int, suggestion: str) -> tuple[str, int]:
    """What somebody does next: mostly types on as predicted."""
    roll = random.random()
    if roll < 0.55 and suggestion:
        typed = suggestion[: random.choice([1, 1, 1, 2, 3, len(suggestion)])]
    elif roll < 0.75:
        typed = random.choice("abc(). \n")
    elif roll < 0.9:
        count = min(cursor, random.randint(1, 4))
        return text[: cursor - count] + text[cursor:], cursor - count
    elif roll < 0.95:
        place = random.randint(0, len(text))
        return text[:place] + "x" + text[place:], cursor + (place <= cursor)
    else:
        return text, random.randint(0, len(text))
    return text[:cursor] + typed + text[cursor:], cursor + len(typed)


@pytest.mark.parametrize(
    ("seed", "num_keystrokes"),
    [
        (1, 400),
        (2, 400),
        *(
            pytest.param(seed, 5000, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])
            for seed in range(3, 7)
        ),
    ],
)
async def test_whatever_is_typed_the_answers_are_those_of_a_server_that_remembers_nothing(
    seed: int, num_keystrokes: int
) -> None:
    random, tiers = Random(seed), Counter[str]()
    text, cursor, suggestion = "def f(a):\n    ", 14, ""
    running = partial(running_pipeline, engine_options=UNGUESSED, patience_s=MUCH_PATIENCE_S)
    async with (
        running(Babbler(silences=True)) as (pipeline, _),
        running(Babbler(silences=True), PipelineOptions(suggestions="off")) as (forgetful, _),
    ):
        for number in range(num_keystrokes):
            text, cursor = edit(random, text, cursor, suggestion)
            text, cursor = text[-200:], max(0, cursor - max(0, len(text) - 200))
            asked = at_cursor(number, text[:cursor], text[cursor:], max_tokens=random.choice([3, 5]))
            asked = replace(asked, params=SamplingParams(stop=random.choice([(), ("\n",)])))
            asked = replace(asked, postprocess=random.random() < 0.7)
            answer = await pipeline.complete(asked)
            assert answer.choices == (await forgetful.complete(asked)).choices
            suggestion = answer.choices[0].text
            tiers[answer.receipt.tier] += 1
    assert min(tiers["typed"], tiers["continued"], tiers["miss"]) > num_keystrokes // 20


class Watched(Document):
    """One of this test's own: others may have left theirs to the garbage collector."""


async def test_receipts_hold_no_documents() -> None:
    async with babbling() as (pipeline, _):
        for number in range(5):
            await pipeline.complete(at_cursor(number, "", prompt=Watched(f"document {number}", "", "a.py")))
    # Only now: the engine's thread may hold the last answer a moment longer than whoever awaited it.
    gc.collect()
    assert not any(type(each) is Watched for each in gc.get_objects())
    assert all(pipeline.receipt(f"r{number}") is not None for number in range(5))
