"""The embedded model answers keystrokes alike, whether or not anything is remembered, guessed or computed ahead.

Somebody types source code: mostly forwards, sometimes what is suggested, with slips, corrections and jumps.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest

from halfline.engine.handle import EngineHandle, Generation
from halfline.engine.options import EngineOptions
from halfline.engine.sequence import Progress, Work
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.options import PipelineOptions
from halfline.quality.texts import default_texts
from halfline.request import CompletionRequest, Document, Identity, SamplingParams
from halfline.text.tokenizer import Tokenizer
from halfline.warmup.ahead import AheadOfKeystrokes
from halfline.warmup.options import WarmupOptions

NUM_BLOCKS = 1500


@dataclass(frozen=True, slots=True)
class Model:
    path: Path
    tokenizer: Tokenizer

    def executor(self) -> NativeExecutor:
        checkpoint = open_checkpoint(self.path)
        try:
            return NativeExecutor(checkpoint, num_blocks=NUM_BLOCKS)
        finally:
            checkpoint.close()


@pytest.fixture(scope="module")
def model(embedded_model: Path) -> Iterator[Model]:
    checkpoint = open_checkpoint(embedded_model)
    yield Model(embedded_model, Tokenizer(checkpoint.vocab))
    checkpoint.close()


class ForgetfulEngine(EngineHandle):
    """No two sequences share anything while `cold`."""

    cold = False
    _names = itertools.count()

    def submit(
        self, works: Sequence[Work], listen: Callable[[int, Progress], None] | None = None
    ) -> Generation:
        if self.cold:
            works = [replace(work, namespace=f"{work.namespace}{next(self._names)}") for work in works]
        return super().submit(works, listen)


def typing(random: Random, text: str) -> Iterator[Callable[[str], tuple[str, str]]]:
    """Each keystroke makes of what is suggested what stands before and behind the cursor."""
    place = len(text) // 3
    before, behind = text[:place], text[place + 400 :]

    def keystroke(suggestion: str) -> tuple[str, str]:
        nonlocal before, behind, place
        roll = random.random()
        if roll < 0.7:
            before += text[place]
            place += 1
        elif roll < 0.8 and suggestion:
            before += suggestion[: random.choice([1, 2, 4, len(suggestion)])]
        elif roll < 0.9:
            before = before[: -random.randint(1, 3)]
        elif roll < 0.93:
            before += random.choice("abc(\n ")
        elif roll < 0.97:
            behind = random.choice(["", "x", "\n"]) + behind
        else:
            distance = random.randint(1, min(200, len(before)))
            before, behind = before[:-distance], before[-distance:] + behind
        return before, behind

    while True:
        yield keystroke


async def compare(model: Model, num_keystrokes: int, cold_every: int | None) -> Counter[str]:
    """Raises AssertionError at the first difference; how many answers came from where."""
    tiers: Counter[str] = Counter()
    random = Random(1)
    engine = EngineHandle(model.executor(), EngineOptions())
    plain_engine = ForgetfulEngine(model.executor(), EngineOptions(speculation="off"))
    spec = model.executor().spec
    engine.start()
    plain_engine.start()
    pipeline = CompletionPipeline(engine, model.tokenizer, spec, PipelineOptions())
    ahead = AheadOfKeystrokes(pipeline, pipeline.foresight, WarmupOptions(share=10.0, max_guesses=2))
    plain = CompletionPipeline(plain_engine, model.tokenizer, spec, PipelineOptions(suggestions="off"))
    texts = itertools.cycle(path.read_text("utf-8") for path in default_texts())
    suggestion = ""
    try:
        for number in range(num_keystrokes):
            if number % 100 == 0:
                keystrokes = typing(random, next(texts))
            before, behind = next(keystrokes)(suggestion)
            asked = CompletionRequest(
                id=f"r{number}",
                prompt=Document(before, behind, f"{number // 100}.py"),
                params=SamplingParams(stop=("\n",)),
                max_tokens=16,
                identity=Identity("local", "ann", f"{number // 100}.py"),
            )
            answer = await ahead.complete(asked)
            plain_engine.cold = cold_every is not None and number % cold_every == 0
            expected = await plain.complete(asked)
            assert answer.choices == expected.choices, f"keystroke {number}, {answer.receipt.tier}"
            suggestion = answer.choices[0].text
            tiers[answer.receipt.tier] += 1
            if random.random() < 0.3:
                await ahead.settled()
        tiers["ahead"] = pipeline.suggestions.num_used_ahead
    finally:
        await asyncio.to_thread(engine.close, 0.0)
        await asyncio.to_thread(plain_engine.close, 0.0)
    return tiers


def test_two_hundred_keystrokes_are_answered_as_by_a_server_that_remembers_nothing(model: Model) -> None:
    tiers = asyncio.run(compare(model, 200, cold_every=None))
    assert min(tiers.values()) > 5, tiers


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_two_thousand_keystrokes_are_answered_as_by_a_server_that_computes_each_anew(model: Model) -> None:
    tiers = asyncio.run(compare(model, 2000, cold_every=10))
    assert min(tiers.values()) > 50, tiers
