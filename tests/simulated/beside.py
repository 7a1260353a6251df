"""A pipeline with tiers beside one without any, both asked the same."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from babbler import Babbler
from numpy.typing import NDArray
from running_pipeline import running_pipeline

from halfline.cache.memory import MemoryTier
from halfline.cache.store import Store
from halfline.engine.options import EngineOptions
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.options import PipelineOptions
from halfline.request import Completion, CompletionRequest


class Everything:
    """To it all texts mean the same."""

    name = "everything"
    num_dimensions = 2

    def embed(self, text: str) -> NDArray[np.float32]:
        return np.array([1, 0], np.float32)


class Beside:
    """What a prompt holds of a document depends on what was asked before, so both are asked everything."""

    def __init__(self, on: CompletionPipeline, off: CompletionPipeline) -> None:
        self.on = on
        self._off = off

    async def complete(self, asked: CompletionRequest, what: str) -> Completion:
        answer, computed = await self.on.complete(asked), await self._off.complete(asked)
        assert computed.receipt.tier == "miss"
        assert answer.choices == computed.choices, what
        return answer


@asynccontextmanager
async def beside(*, typed: bool = False, **tiers: Any) -> AsyncIterator[Beside]:
    def running(suggestions: bool, **caches: Any) -> Any:
        ticks = itertools.count()  # time passes evenly, so every row of a draft is cheap
        return running_pipeline(
            Babbler(),
            PipelineOptions(suggestions="on" if suggestions else "off"),
            EngineOptions(step_tokens=64, max_num_seqs=16),
            lambda: next(ticks) * 1e-3,
            600.0,
            **caches,
        )

    async with running(typed, **tiers) as (on, _), running(False) as (off, _):
        yield Beside(on, off)


def a_store() -> Store:
    return Store(MemoryTier(1 << 24, 1e12))
