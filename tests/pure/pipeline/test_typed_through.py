"""What was predicted is not computed again, and nothing is ever answered that would not be computed."""

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.model.executor import Batch, Outputs
from halfline.model.random_model import EOS_ID, byte_vocab
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.foresight import Errand
from halfline.pipeline.options import PipelineOptions
from halfline.request import Completion, CompletionRequest, Document, Identity, SamplingParams
from halfline.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(byte_vocab())
LIKELY = np.array([*b"abc(). \n"])
PATIENCE_S = 60.0
MUCH_PATIENCE_S = 1800.0
ANN = Identity("local", "ann", "a.py")


class Babbler(HashExecutor):
    """Says something that one can type, and falls silent now and then. `rows` is how many tokens each step ran."""

    def __init__(
        self, before_run: Callable[[Batch], None] = lambda batch: None, *, silences: bool = False
    ) -> None:
        super().__init__(256, before_run=before_run)
        self.rows: list[int] = []
        self._eos_bonus = 4.0 if silences else -100.0

    def run(self, batch: Batch) -> Outputs | None:
        outputs = super().run(batch)
        self.rows.append(len(batch.token_ids))
        if outputs is not None:
            outputs.logits[:, LIKELY] += 4.0
            outputs.logits[:, EOS_ID] += self._eos_bonus
        return outputs if outputs is None else replace(outputs, top=None)


def serve(
    main: Callable[[CompletionPipeline, Babbler], Coroutine[None, None, None]],
    options: PipelineOptions | None = None,
    executor: Babbler | None = None,
    patience_s: float = PATIENCE_S,
) -> None:
    executor = executor or Babbler()

    async def patient() -> None:
        engine = EngineHandle(executor, EngineOptions(step_tokens=64, max_num_seqs=16, speculation="off"))
        engine.start()
        pipeline = CompletionPipeline(engine, TOKENIZER, executor.spec, options or PipelineOptions())
        try:
            async with asyncio.timeout(patience_s):
                await main(pipeline, executor)
        finally:
            await asyncio.to_thread(engine.close, 0.0)

    asyncio.run(patient())


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


def test_typing_what_was_predicted_computes_only_what_is_missing_behind_it() -> None:
    async def main(pipeline: CompletionPipeline, executor: Babbler) -> None:
        first = await pipeline.complete(at_cursor(1, "def f"))
        text = first.choices[0].text
        assert (first.receipt.tier, first.choices[0].finish_reason) == ("miss", "length")
        executor.rows.clear()
        second = await pipeline.complete(at_cursor(2, "def f" + text[:3]))
        assert second.receipt.tier == "continued"
        assert second.choices[0].text.startswith(text[3:])
        assert second.receipt.num_known_tokens == 5
        assert second.receipt.num_generated_tokens == 8
        assert second.receipt.num_computed_tokens == sum(executor.rows) == 3, "one for each missing token"
        again = await pipeline.complete(at_cursor(3, "def f" + text[:3]))
        assert again.choices == second.choices

    serve(main)


def test_what_is_known_to_the_end_of_the_answer_costs_no_step() -> None:
    async def main(pipeline: CompletionPipeline, executor: Babbler) -> None:
        stops = SamplingParams(stop=("\n",))
        for number in range(100):
            first = await pipeline.complete(at_cursor(number, f"line {number}", params=stops, max_tokens=40))
            if first.choices[0].finish_reason == "stop" and len(first.choices[0].text) > 2:
                break
        executor.rows.clear()
        text = first.choices[0].text
        for place in range(len(text) + 1):
            prefix = f"line {number}" + text[:place]
            answer = await pipeline.complete(at_cursor(place + 200, prefix, params=stops, max_tokens=40))
            assert texts(answer) == (text[place:], "stop")
            receipt = answer.receipt
            assert (receipt.tier, receipt.num_computed_tokens) == ("typed", 0)
            assert receipt.num_reused_tokens == receipt.num_prompt_tokens
        deltas = [each async for each in pipeline.stream(at_cursor(999, prefix, params=stops, max_tokens=40))]
        assert [(each.tier, each.finish_reason) for each in deltas] == [("typed", "stop")]
        assert executor.rows == []

    serve(main)


def test_known_tokens_are_read_with_the_new_requests_own_limit_and_stops() -> None:
    async def main(pipeline: CompletionPipeline, executor: Babbler) -> None:
        text = (await pipeline.complete(at_cursor(1, "x", max_tokens=30))).choices[0].text
        executor.rows.clear()
        for length in range(1, 20):
            answer = await pipeline.complete(at_cursor(2, "x", max_tokens=length))
            assert texts(answer) == (text[:length], "length")
        stop = text[10:12]
        answer = await pipeline.complete(
            at_cursor(3, "x", params=SamplingParams(stop=(stop,)), max_tokens=30)
        )
        assert texts(answer) == (text[: text.index(stop)], "stop")
        assert executor.rows == []

    serve(main)


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
def test_what_is_not_the_same_computation_is_computed(changes: dict[str, Any]) -> None:
    async def main(pipeline: CompletionPipeline, executor: Babbler) -> None:
        await pipeline.complete(at_cursor(1, "def f"))
        for number in (2, 3):
            answer = await pipeline.complete(at_cursor(number, "def f", **changes))
            known = number == 3 and "tenant" in changes
            assert answer.receipt.tier == ("typed" if known else "miss")

    serve(main)


def test_with_suggestions_off_everything_is_computed() -> None:
    async def main(pipeline: CompletionPipeline, executor: Babbler) -> None:
        first = await pipeline.complete(at_cursor(1, "def f"))
        second = await pipeline.complete(at_cursor(2, "def f"))
        assert first.choices == second.choices
        assert second.receipt.tier == "miss"
        assert second.receipt.num_computed_tokens == 2 + 8, "the forced text among it"

    serve(main, PipelineOptions(suggestions="off"))


def test_a_newer_keystroke_goes_on_with_the_tokens_of_the_older_that_it_replaces() -> None:
    reached, opened = threading.Event(), threading.Event()
    steps = -100

    def hold_the_fifth_step(batch: Batch) -> None:
        nonlocal steps
        steps += 1
        if steps == 5:
            reached.set()
            assert opened.wait(PATIENCE_S)

    async def main(pipeline: CompletionPipeline, executor: Babbler) -> None:
        whole = (await pipeline.complete(at_cursor(0, "def f", tenant="other"))).choices[0].text
        nonlocal steps
        steps = 0
        executor.rows.clear()
        older = asyncio.create_task(pipeline.complete(at_cursor(1, "def f")))
        assert await asyncio.to_thread(reached.wait, PATIENCE_S)
        newer = asyncio.create_task(pipeline.complete(at_cursor(2, "def f" + whole[:2], max_tokens=6)))
        for _ in range(20):
            await asyncio.sleep(0)
        opened.set()
        assert texts(await older) == (whole[:4], "superseded")
        answer = await newer
        assert texts(answer) == (whole[2:], "length")
        assert (answer.receipt.tier, answer.receipt.num_known_tokens) == ("continued", 2)
        # The prompt, three tokens behind it, the step that was stopped, and the four that were missing.
        assert executor.rows == [5, 1, 1, 1, 1, 1, 1, 1, 1]

    serve(main, executor=Babbler(hold_the_fifth_step))


def test_guesses_are_computed_as_one_batch_and_known_when_somebody_comes() -> None:
    async def main(pipeline: CompletionPipeline, executor: Babbler) -> None:
        await pipeline.complete(at_cursor(1, "def f"))
        executor.rows.clear()
        guesses = [at_cursor(2, "def f" + each) for each in "abca"]
        await pipeline.foresight.look_ahead(guesses, 8, Errand())
        assert len(executor.rows) == 2 + 8, "all in the same steps"
        assert max(executor.rows[2:]) <= 4, "one row for each different guess"
        executor.rows.clear()
        for each in "abc":
            answer = await pipeline.complete(at_cursor(3, "def f" + each))
            assert answer.receipt.tier == "typed"
        await pipeline.foresight.look_ahead(guesses, 8, Errand())
        assert executor.rows == []
        assert pipeline.receipt("r2") is None, "nobody asked"

    serve(main)


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
def test_whatever_is_typed_the_answers_are_those_of_a_server_that_remembers_nothing(
    seed: int, num_keystrokes: int
) -> None:
    random = Random(seed)
    tiers: dict[str, int] = {}

    async def main(pipeline: CompletionPipeline, executor: Babbler) -> None:
        engine = EngineHandle(
            Babbler(silences=True), EngineOptions(step_tokens=64, max_num_seqs=16, speculation="off")
        )
        engine.start()
        forgetful = CompletionPipeline(engine, TOKENIZER, executor.spec, PipelineOptions(suggestions="off"))
        text, cursor, suggestion = "def f(a):\n    ", 14, ""
        try:
            for number in range(num_keystrokes):
                text, cursor = edit(random, text, cursor, suggestion)
                text, cursor = text[-200:], max(0, cursor - max(0, len(text) - 200))
                asked = at_cursor(number, text[:cursor], text[cursor:], max_tokens=random.choice([3, 5]))
                asked = replace(asked, params=SamplingParams(stop=random.choice([(), ("\n",)])))
                asked = replace(asked, postprocess=random.random() < 0.7)
                answer = await pipeline.complete(asked)
                assert answer.choices == (await forgetful.complete(asked)).choices
                suggestion = answer.choices[0].text
                tiers[answer.receipt.tier] = tiers.get(answer.receipt.tier, 0) + 1
        finally:
            await asyncio.to_thread(engine.close, 0.0)

    serve(main, executor=Babbler(silences=True), patience_s=MUCH_PATIENCE_S)
    assert min(tiers["typed"], tiers["continued"], tiers["miss"]) > num_keystrokes // 20


class Watched(Document):
    """One of this test's own: others may have left theirs to the garbage collector."""


def test_receipts_hold_no_documents() -> None:
    kept: list[CompletionPipeline] = []

    async def main(pipeline: CompletionPipeline, executor: Babbler) -> None:
        kept.append(pipeline)
        for number in range(5):
            await pipeline.complete(at_cursor(number, "", prompt=Watched(f"document {number}", "", "a.py")))

    serve(main)
    # Only now: the engine's thread may hold the last answer a moment longer than whoever awaited it.
    gc.collect()
    assert not any(type(each) is Watched for each in gc.get_objects())
    assert all(kept[0].receipt(f"r{number}") is not None for number in range(5))
