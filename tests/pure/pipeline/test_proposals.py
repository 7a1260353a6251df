"""Guessed answers are read as drafts: whatever is guessed, what is answered is what would be computed."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from halfline.cache.exact import ExactAnswers
from halfline.cache.guessing import Cursor, GuessingTier
from halfline.cache.memory import MemoryTier
from halfline.cache.semantic import SemanticTier
from halfline.cache.store import Store
from halfline.cache.syntax import SyntaxTier
from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.engine.speculation.draft import DraftSource
from halfline.model.executor import Batch, Outputs
from halfline.model.random_model import EOS_ID, byte_vocab
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.options import PipelineOptions
from halfline.request import CompletionRequest, Document, SamplingParams
from halfline.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(byte_vocab())
LIKELY = np.array([*b"abc(). \n"])


class Babbler(HashExecutor):
    """Says readable text, and falls silent now and then. Counts its steps."""

    num_steps = 0

    def run(self, batch: Batch) -> Outputs | None:
        outputs = super().run(batch)
        self.num_steps += 1
        if outputs is not None:
            outputs.logits[:, LIKELY] += 4.0
            outputs.logits[:, EOS_ID] += 3.0
        return outputs if outputs is None else replace(outputs, top=None)


def serve(
    main: Callable[[CompletionPipeline, Babbler], Coroutine[None, None, None]],
    guessing: Sequence[GuessingTier] = (),
    exact: ExactAnswers | None = None,
    step_tokens: int = 64,
) -> None:
    async def patient() -> None:
        executor = Babbler(256)
        # Time passes evenly, so every row of a draft is cheap.
        ticks = itertools.count()
        engine = EngineHandle(
            executor,
            EngineOptions(step_tokens=step_tokens, max_num_seqs=16),
            clock=lambda: next(ticks) * 1e-3,
        )
        engine.start()
        options = PipelineOptions(suggestions="off" if exact is None else "on")
        pipeline = CompletionPipeline(
            engine, TOKENIZER, executor.spec, options, exact=exact, guessing=guessing
        )
        try:
            async with asyncio.timeout(600):
                await main(pipeline, executor)
        finally:
            await asyncio.to_thread(engine.close, 0.0)

    asyncio.run(patient())


@dataclass
class Told:
    """Guesses what it is told to, and remembers what it learned."""

    source: DraftSource = "syntax"
    guesses: dict[str, str] = field(default_factory=dict)
    learned: dict[str, str] = field(default_factory=dict)

    def look(self, cursor: Cursor) -> "ToldLook | None":
        return ToldLook(self, cursor.before)


@dataclass
class ToldLook:
    tier: Told
    before: str

    def guess(self) -> str | None:
        return self.tier.guesses.get(self.before)

    def learn(self, text: str) -> None:
        self.tier.learned[self.before] = text


def request(prompt: str | Document, **changes: Any) -> CompletionRequest:
    return replace(
        CompletionRequest(id="r", prompt=prompt, params=SamplingParams(ignore_eos=True), max_tokens=8),
        **changes,
    )


async def answers(pipeline: CompletionPipeline, requests: Sequence[CompletionRequest]) -> list[object]:
    return [(await pipeline.complete(each)).choices for each in requests]


def plainly(requests: Sequence[CompletionRequest]) -> list[object]:
    """What is answered with no tier at all."""
    different = {repr(each): each for each in requests}
    found: dict[str, object] = {}

    async def main(pipeline: CompletionPipeline, executor: Babbler) -> None:
        found.update(zip(different, await answers(pipeline, list(different.values())), strict=True))

    serve(main)
    return [found[repr(each)] for each in requests]


def test_a_right_guess_is_answered_in_few_steps_and_named() -> None:
    asked = request("def f")
    plain = plainly([asked])
    tier = Told()

    async def learns(pipeline: CompletionPipeline, executor: Babbler) -> None:
        assert await answers(pipeline, [asked]) == plain
        assert executor.num_steps == 8

    # A new engine each time: one remembers what it said lately, and would guess it itself.
    async def guesses(pipeline: CompletionPipeline, executor: Babbler) -> None:
        await pipeline.complete(request("other"))  # from which it knows what a step takes
        executor.num_steps = 0
        answer = await pipeline.complete(asked)
        assert [answer.choices] == plain
        assert executor.num_steps <= 3
        assert answer.receipt.tier == "syntax" and answer.receipt.accepted_tokens["syntax"] >= 5
        totals = pipeline.proposals.totals()["syntax"]
        assert (totals.looks, totals.proposed, totals.right) == (2, 1, 1)
        assert totals.tokens_accepted >= 5 and totals.gain_ms > 0

    async def streams(pipeline: CompletionPipeline, executor: Babbler) -> None:
        await pipeline.complete(request("other"))
        streamed = [delta async for delta in pipeline.stream(asked)]
        assert "".join(delta.text for delta in streamed) == tier.learned["def f"]
        assert streamed[0].tier == "syntax"

    serve(learns, [tier])
    tier.guesses = dict(tier.learned)
    serve(guesses, [tier])
    serve(streams, [tier])


def test_a_tier_is_named_from_half_of_the_answer_on() -> None:
    asked = request("def f", max_tokens=8)
    plain = plainly([asked])
    tier = Told()

    async def learns(pipeline: CompletionPipeline, executor: Babbler) -> None:
        assert await answers(pipeline, [asked]) == plain

    serve(learns, [tier])
    (right,) = tier.learned.values()

    async def named(pipeline: CompletionPipeline, executor: Babbler) -> None:
        await pipeline.complete(request("other"))  # from which it knows what a step takes
        answer = await pipeline.complete(asked)
        assert [answer.choices] == plain
        seen.append((answer.receipt.tier, answer.receipt.accepted_tokens["syntax"]))

    seen: list[tuple[str, int]] = []
    for num_right in (1, 5):
        tier.guesses = {"def f": right[:num_right] + "zzz"}
        serve(named, [tier])
    assert [name for name, _ in seen] == ["miss", "syntax"] and seen[0][1] == 1 and seen[1][1] >= 4


def test_a_right_guess_behind_a_long_prompt_is_read_in_the_step_that_reads_the_prompt() -> None:
    asked = request(Document("x = 1\n" * 20 + "def f", "\n", "a.py"), postprocess=False)
    plain = plainly([asked])
    tier = Told()

    async def learns(pipeline: CompletionPipeline, executor: Babbler) -> None:
        assert await answers(pipeline, [asked]) == plain

    async def guesses(pipeline: CompletionPipeline, executor: Babbler) -> None:
        await pipeline.complete(request("other"))  # from which it knows what a step takes
        executor.num_steps = 0
        answer = await pipeline.complete(asked)
        assert [answer.choices] == plain
        assert executor.num_steps == 1, "although the word at the cursor has to come first"
        assert answer.receipt.decode_ms == 0.0

    serve(learns, [tier], step_tokens=256)
    tier.guesses = dict(tier.learned)
    serve(guesses, [tier], step_tokens=256)


def test_whatever_is_guessed_the_answers_are_those_of_no_guess() -> None:
    random = Random(5)
    prompts = [f"def f{number}(" for number in range(3)]
    requests = [request(prompt, max_tokens=random.randrange(1, 12)) for prompt in prompts]
    requests += [request(prompt, params=SamplingParams(stop=("\n", "a)"))) for prompt in prompts]
    requests += [request(Document(f"{prompt}ab", "\n)", "a.py"), postprocess=False) for prompt in prompts]
    plain = plainly(requests)
    tier = Told()

    async def main(pipeline: CompletionPipeline, executor: Babbler) -> None:
        assert await answers(pipeline, requests) == plain
        right = dict(tier.learned)
        wrongs: list[Callable[[str], str]] = [
            lambda text: text,
            lambda text: text[:2] + "zzz",
            lambda text: "z" + text,
            lambda text: text * 3,
            lambda text: text[:1],
            lambda text: "",
            lambda text: "\ud800",
            lambda text: "é中" + text,
        ]
        for wrong in wrongs:
            tier.guesses = {before: wrong(text) for before, text in right.items()}
            assert await answers(pipeline, requests) == plain

    serve(main, [tier])


@pytest.mark.parametrize(
    "changes",
    [
        {"caching": "none"},
        {"caching": "refresh"},
        {"params": SamplingParams(temperature=1.0, seed=3)},
        {"num_choices": 2},
        {"prompt": (100, 101)},
    ],
    ids=["no-store", "no-cache", "sampled", "two choices", "token ids"],
)
def test_where_a_guess_must_not_or_cannot_help_nobody_looks(changes: dict[str, Any]) -> None:
    tier = Told(guesses={"def f": "abc"})

    async def main(pipeline: CompletionPipeline, executor: Babbler) -> None:
        await pipeline.complete(replace(request("def f"), **changes))
        assert pipeline.proposals.totals()["syntax"].looks == 0 and not tier.learned

    serve(main, [tier])


class Letters:
    """Counts letters: much is near that is not the same."""

    name = "letters"
    num_dimensions = 26

    def embed(self, text: str) -> NDArray[np.float32]:
        counts = np.array([text.count(chr(97 + i)) for i in range(26)], np.float32)
        return counts / max(float(np.linalg.norm(counts)), 1.0)


FUNCTIONS = [
    "def f(a, b):\n    if a < b:\n        return g(a, b) + ",
    "def f(a, b):\n    if a <= b:\n        return g(a, b) + ",
    "def f(a, b):\n    if not a < b:\n        return g(a, b) + ",
    "def f(a, b):\n    if a < b:\n        return g(b, a) + ",
    "def f(a, b):\n  if a < b:\n    return g(a, b) + ",
    "def h(x, y):\n    if x < y:\n        return g(x, y) + ",
    "def h(x, y):\n    if x < y:\n        return g(x, y) + x.",
]


def replayed(count: int, seed: int) -> list[CompletionRequest]:
    """Few questions asked often, each a little different: other files, ends, limits and tenants."""
    random = Random(seed)
    requests = []
    for _ in range(count):
        document = Document(
            random.choice(FUNCTIONS),
            random.choice(["", "\n", "\n    return b\n"]),
            random.choice(["a.py", "b.py"]),
        )
        requests.append(
            request(
                document,
                max_tokens=random.choice([3, 5, 8]),
                tenant=random.choice(["one", "two"]),
                postprocess=random.random() < 0.5,
            )
        )
    return requests


def check_all_tiers(count: int, seed: int) -> Counter[str]:
    """Every answer is that of no tier. How often each tier proposed one."""
    requests = replayed(count, seed)
    store = Store(MemoryTier(1 << 24, 1e12))
    tiers: list[GuessingTier] = [SyntaxTier(store), SemanticTier(Letters(), 0.8)]
    plain = plainly(requests)
    num_proposed: Counter[str] = Counter()

    async def main(pipeline: CompletionPipeline, executor: Babbler) -> None:
        seen: Counter[str] = Counter()
        for each, expected in zip(requests, plain, strict=True):
            answer = await pipeline.complete(each)
            assert answer.choices == expected
            seen[answer.receipt.tier] += 1
        assert seen["exact"] > count // 8 and seen["miss"] > 0
        for tier, totals in pipeline.proposals.totals().items():
            num_proposed[tier] += totals.proposed
        store.check()

    serve(main, tiers, ExactAnswers(store, b"babbler"))
    return num_proposed


def test_with_all_tiers_on_every_answer_is_that_of_none() -> None:
    num_proposed = check_all_tiers(200, seed=1)
    assert num_proposed["syntax"] > 0 and num_proposed["semantic"] > 0


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_with_all_tiers_on_twenty_thousand_answers_are_those_of_none() -> None:
    num_proposed = sum((check_all_tiers(400, seed) for seed in range(50)), Counter[str]())
    assert num_proposed["syntax"] > 10 and num_proposed["semantic"] > 10
