"""A pipeline on an engine without a model: token n is byte n."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from gate import Gate
from running_engine import PATIENCE_S, running_engine

from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.model.random_model import byte_vocab
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.options import PipelineOptions
from halfline.request import ChoiceDelta, CompletionRequest, Document, SamplingParams
from halfline.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(byte_vocab())
UNGUESSED = EngineOptions(step_tokens=64, max_num_seqs=16, speculation="off")
"""Which step is which is known."""
PROMPT = "The quick brown fox jumps over the lazy dog"


def request(prompt: str | tuple[int, ...] | Document = PROMPT, **changes: Any) -> CompletionRequest:
    base = CompletionRequest(id="r1", prompt=prompt, params=SamplingParams(), max_tokens=24)
    return replace(base, **changes)


def numbered(number: int, **changes: Any) -> CompletionRequest:
    """One of several that ask the same but for the changes: for twenty tokens, no fewer."""
    base = request("one quick brown fox and another", id=f"r{number}", max_tokens=20)
    return replace(base, **{"params": SamplingParams(ignore_eos=True), **changes})


@asynccontextmanager
async def running_pipeline(
    executor: HashExecutor | None = None,
    options: PipelineOptions | None = None,
    engine_options: EngineOptions | None = None,
    clock: Callable[[], float] = time.perf_counter,
    patience_s: float = PATIENCE_S,
    **caches: Any,
) -> AsyncIterator[tuple[CompletionPipeline, EngineHandle]]:
    executor, options = executor or HashExecutor(64), options or PipelineOptions()
    engine_options = engine_options or EngineOptions(step_tokens=64, max_num_seqs=16)
    async with running_engine(executor, engine_options, clock, patience_s) as engine:
        yield CompletionPipeline(engine, TOKENIZER, executor.spec, options, **caches), engine


@asynccontextmanager
async def held_pipeline(
    gate: Gate, engine_options: EngineOptions | None = None
) -> AsyncIterator[tuple[CompletionPipeline, EngineHandle]]:
    """Its steps wait at the gate, so that requests meet in it."""
    executor = HashExecutor(128, before_run=gate)
    async with running_pipeline(executor, engine_options=engine_options or UNGUESSED) as running:
        try:
            yield running
        finally:
            gate.open()


async def others_go_on() -> None:
    """Other tasks go as far as they come without the engine."""
    for _ in range(20):
        await asyncio.sleep(0)


async def streamed(pipeline: CompletionPipeline, asked: CompletionRequest) -> list[ChoiceDelta]:
    return [delta async for delta in pipeline.stream(asked)]


def text_of(deltas: list[ChoiceDelta], index: int = 0) -> str:
    """What one choice says in all."""
    return "".join(delta.text for delta in deltas if delta.index == index)
