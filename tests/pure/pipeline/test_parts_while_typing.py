"""Other files come, change and go while one types: whatever is remembered or computed ahead, answers stay the same."""

import random
from collections import Counter
from typing import Any

import pytest
from babbler import Babbler
from running_pipeline import TOKENIZER, UNGUESSED, running_pipeline

from halfline.cache.exact import ExactAnswers
from halfline.cache.memory import MemoryTier
from halfline.cache.store import Store
from halfline.context.options import ContextOptions
from halfline.context.sources.found import RankedSources
from halfline.context.sources.recent import RecentEdits, RecentFiles, RecentlyAlike
from halfline.context.surroundings import Surroundings
from halfline.engine.options import EngineOptions
from halfline.pipeline.options import PipelineOptions
from halfline.request import Completion, CompletionRequest, Document, Identity, Part, SamplingParams
from halfline.warmup.ahead import AheadOfKeystrokes
from halfline.warmup.options import WarmupOptions

pytestmark = pytest.mark.anyio

PARTS = (
    Part("", "empty.py"),
    Part("def helper(a):\n    return a  # no end of a line", "b.py"),
    Part("a = 1\r\nb = 2\r\n", "c/d.rs"),
    Part("日本語 = '🎉'\n", None),
    Part("def big(n):\n" + "    n = n + 1  # longer than the room\n" * 40, "big\nname.py"),
)


def surroundings() -> Surroundings:
    recent = RecentFiles(4)
    sources = RankedSources([RecentEdits(recent), RecentlyAlike(recent)], 512)
    options = ContextOptions(compression=("comments", "prune"), keep=0.6)
    return Surroundings(TOKENIZER, TOKENIZER.vocab_size, options, sources, recent)


def keystroke(number: int, path: str, text: str, parts: tuple[Part, ...]) -> CompletionRequest:
    return CompletionRequest(
        id=f"r{number}",
        prompt=Document(text, "\nend()\n" if number % 2 else "", path, parts),
        params=SamplingParams(),
        max_tokens=6,
        user="ann",
        identity=Identity("local", "ann", path),
    )


def options(suggestions: Any) -> PipelineOptions:
    return PipelineOptions(
        part_tokens=200,
        fresh_prefix_tokens=64,
        grown_prefix_tokens=128,
        prefix_tokens=256,
        suggestions=suggestions,
    )


def seen(completion: Completion) -> tuple[object, ...]:
    ledger = {key: value for key, value in completion.receipt.ledger.items() if key != "prompt_ms"}
    return completion.choices, completion.receipt.num_prompt_tokens, ledger


@pytest.mark.parametrize("around", [False, True], ids=["as sent", "found and shortened"])
async def test_answers_and_what_was_in_their_prompts_are_the_same(around: bool) -> None:
    chance = random.Random(1)
    texts = {"a.py": "def f(x):\n    return x\n\n" * 4, "z.rs": "let x = 1;\n"}
    parts: dict[str, tuple[Part, ...]] = dict.fromkeys(texts, ())
    asked: list[CompletionRequest] = []
    plain: list[tuple[object, ...]] = []
    sources = {"surroundings": surroundings()} if around else {}
    async with running_pipeline(Babbler(silences=True), options("off"), UNGUESSED, **sources) as (
        pipeline,
        _,
    ):
        answer = ""
        for number in range(40):
            path = chance.choice(("a.py", "a.py", "a.py", "z.rs"))
            if chance.random() < 0.2:
                parts[path] = tuple(chance.sample(PARTS, chance.randrange(4)))
            # What was predicted is typed, or something else, or taken back, or asked again.
            typed = chance.choice((answer[:1], answer[:1], answer[:2], "x", "\n", "", None))
            texts[path] = texts[path][:-2] if typed is None else texts[path] + typed
            asked.append(keystroke(number, path, texts[path], parts[path]))
            completion = await pipeline.complete(asked[-1])
            answer = completion.choices[0].text
            plain.append(seen(completion))
    sources = {"surroundings": surroundings()} if around else {}
    exact = ExactAnswers(Store(MemoryTier(1 << 24, 1e12)), b"babbler")
    async with running_pipeline(
        Babbler(silences=True),
        options("on"),
        EngineOptions(step_tokens=64, max_num_seqs=16),
        exact=exact,
        **sources,
    ) as (pipeline, _):
        ahead = AheadOfKeystrokes(pipeline, pipeline.foresight, WarmupOptions(share=1.0, pause_ms=1))
        tiers: Counter[str] = Counter()
        for number, request in enumerate(asked):
            completion = await ahead.complete(request)
            assert seen(completion) == plain[number]
            tiers[completion.receipt.tier] += 1
            if number % 3:
                await ahead.settled()
        assert tiers["typed"] and tiers["continued"] and tiers["miss"], tiers
