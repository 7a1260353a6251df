"""Guessed answers are read as drafts: whatever is guessed, what is answered is what would be computed."""

import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from babbler import Babbler
from numpy.typing import NDArray
from running_pipeline import running_pipeline, streamed, text_of
from scripted_executor import ScriptedExecutor

from halfline.cache.exact import ExactAnswers
from halfline.cache.guessing import Cursor, GuessingTier
from halfline.cache.memory import MemoryTier
from halfline.cache.semantic import SemanticTier
from halfline.cache.store import Store
from halfline.cache.syntax import SyntaxTier
from halfline.engine.options import EngineOptions
from halfline.engine.speculation.draft import DraftSource
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.options import PipelineOptions
from halfline.request import CompletionRequest, Document, SamplingParams

PATIENCE_S = 600.0

FLUENT = "a.b"
"""What is said behind it has no silences in it, which no text shows, so a guess can be right as a whole."""

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def guessing(
    *tiers: GuessingTier, exact: ExactAnswers | None = None, step_tokens: int = 64
) -> AsyncIterator[tuple[CompletionPipeline, Babbler]]:
    """A new engine each time: one remembers what it said lately, and would guess it itself."""
    babbler = Babbler(silences=True)
    ticks = itertools.count()  # time passes evenly, so every row of a draft is cheap
    async with running_pipeline(
        babbler,
        PipelineOptions(suggestions="off" if exact is None else "on"),
        EngineOptions(step_tokens=step_tokens, max_num_seqs=16),
        lambda: next(ticks) * 1e-3,
        PATIENCE_S,
        exact=exact,
        guessing=tiers,
    ) as (pipeline, _):
        yield pipeline, babbler


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


async def plainly(requests: Sequence[CompletionRequest]) -> list[object]:
    """What is answered with no tier at all."""
    different = {repr(each): each for each in requests}
    async with guessing() as (pipeline, _):
        found = dict(zip(different, await answers(pipeline, list(different.values())), strict=True))
    return [found[repr(each)] for each in requests]


async def taught(*requests: CompletionRequest, step_tokens: int = 64) -> tuple[Told, list[object]]:
    """A tier that has learned the answers, and the answers, which it does not change."""
    tier, plain = Told(), await plainly(requests)
    async with guessing(tier, step_tokens=step_tokens) as (pipeline, _):
        assert await answers(pipeline, requests) == plain
    return tier, plain


async def test_a_right_guess_is_answered_in_few_steps_and_named() -> None:
    asked = request(FLUENT)
    async with guessing(Told()) as (pipeline, babbler):
        await pipeline.complete(asked)
        assert len(babbler.rows) == 8
    tier, plain = await taught(asked)
    tier.guesses = dict(tier.learned)
    async with guessing(tier) as (pipeline, babbler):
        await pipeline.complete(request("other"))  # from which it knows what a step takes
        babbler.rows.clear()
        answer = await pipeline.complete(asked)
        assert [answer.choices] == plain
        assert len(babbler.rows) <= 3
        assert answer.receipt.tier == "syntax" and answer.receipt.accepted_tokens["syntax"] >= 5
        totals = pipeline.proposals.totals()["syntax"]
        assert (totals.looks, totals.proposed, totals.right) == (2, 1, 1)
        assert totals.tokens_accepted >= 5 and totals.gain_ms > 0
    async with guessing(tier) as (pipeline, _):
        await pipeline.complete(request("other"))
        deltas = await streamed(pipeline, asked)
        assert text_of(deltas) == tier.learned[FLUENT]
        assert deltas[0].tier == "syntax"


async def test_a_tier_is_named_where_the_model_agreed_with_all_of_its_guess() -> None:
    asked = request(FLUENT, max_tokens=8)
    tier, plain = await taught(asked)
    (right,) = tier.learned.values()
    seen = []
    for guess in (right[:1] + "zzz", right[:5] + "zzz", right):
        tier.guesses = {FLUENT: guess}
        async with guessing(tier) as (pipeline, _):
            await pipeline.complete(request("other"))  # from which it knows what a step takes
            answer = await pipeline.complete(asked)
        assert [answer.choices] == plain
        seen.append((answer.receipt.tier, answer.receipt.accepted_tokens["syntax"]))
    assert [name for name, _ in seen] == ["miss", "miss", "syntax"]
    assert seen[0][1] == 1 and 4 <= seen[1][1] < seen[2][1] == 7, (
        "what was right of a guess is saved all the same"
    )


async def test_a_right_guess_behind_a_long_prompt_is_read_in_the_step_that_reads_the_prompt() -> None:
    asked = request(Document("x = 1\n" * 20 + "def f", "\n", "a.py"), postprocess=False)
    tier, plain = await taught(asked, step_tokens=256)
    tier.guesses = dict(tier.learned)
    async with guessing(tier, step_tokens=256) as (pipeline, babbler):
        await pipeline.complete(request("a prompt of a block"))  # from which it knows what a row takes
        babbler.rows.clear()
        answer = await pipeline.complete(asked)
        assert [answer.choices] == plain
        assert len(babbler.rows) == 1, "although the word at the cursor has to come first"
        assert answer.receipt.decode_ms == 0.0


async def test_whatever_is_guessed_the_answers_are_those_of_no_guess() -> None:
    random = Random(5)
    prompts = [f"def f{number}(" for number in range(3)]
    requests = [request(prompt, max_tokens=random.randrange(1, 12)) for prompt in prompts]
    requests += [request(prompt, params=SamplingParams(stop=("\n", "a)"))) for prompt in prompts]
    requests += [request(Document(f"{prompt}ab", "\n)", "a.py"), postprocess=False) for prompt in prompts]
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
    tier, plain = await taught(*requests)
    right = dict(tier.learned)
    async with guessing(tier) as (pipeline, _):
        for wrong in wrongs:
            tier.guesses = {before: wrong(text) for before, text in right.items()}
            assert await answers(pipeline, requests) == plain


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
async def test_where_a_guess_must_not_or_cannot_help_nobody_looks(changes: dict[str, Any]) -> None:
    tier = Told(guesses={"def f": "abc"})
    async with guessing(tier) as (pipeline, _):
        await pipeline.complete(replace(request("def f"), **changes))
        assert pipeline.proposals.totals()["syntax"].looks == 0 and not tier.learned


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


async def test_what_another_model_was_heard_to_say_is_but_a_guess(tmp_path: Path) -> None:
    asked = request(FUNCTIONS[0])
    kept = SemanticTier(Letters(), 0.8, tmp_path / "guesses")
    executor = ScriptedExecutor("another model's answer", len(FUNCTIONS[0]))
    async with running_pipeline(executor, PipelineOptions(suggestions="off"), guessing=[kept]) as (other, _):
        assert (await other.complete(asked)).choices[0].text == "another "
    kept.save()
    loaded = SemanticTier(Letters(), 0.8, tmp_path / "guesses")
    async with guessing(loaded) as (pipeline, _):
        assert await answers(pipeline, [asked]) == await plainly([asked])
        assert pipeline.proposals.totals()["semantic"].proposed == 1


async def num_proposed(count: int, seed: int) -> Counter[str]:
    """How often each tier proposed an answer; every answer is that of no tier."""
    requests = replayed(count, seed)
    store = Store(MemoryTier(1 << 24, 1e12))
    exact, plain = ExactAnswers(store, b"babbler"), await plainly(requests)
    seen: Counter[str] = Counter()
    async with guessing(SyntaxTier(store), SemanticTier(Letters(), 0.8), exact=exact) as (pipeline, _):
        for each, expected in zip(requests, plain, strict=True):
            answer = await pipeline.complete(each)
            assert answer.choices == expected
            seen[answer.receipt.tier] += 1
        assert seen["exact"] > count // 8 and seen["miss"] > 0
        store.check()
        return Counter({tier: totals.proposed for tier, totals in pipeline.proposals.totals().items()})


async def test_with_all_tiers_on_every_answer_is_that_of_none() -> None:
    found = await num_proposed(200, seed=1)
    assert found["syntax"] > 0 and found["semantic"] > 0


@pytest.mark.nightly
@pytest.mark.timeout(7200)
async def test_with_all_tiers_on_twenty_thousand_answers_are_those_of_none() -> None:
    found = Counter[str]()
    for seed in range(50):
        found += await num_proposed(400, seed)
    assert found["syntax"] > 10 and found["semantic"] > 10
