"""The counters of the caches add up: every request is counted once by where its answer came from, every look-up once by
what it found.
"""

import asyncio
import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from babbler import Babbler
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families
from running_pipeline import running_pipeline

from halfline.cache.exact import ExactAnswers
from halfline.cache.fragments import Fragments
from halfline.cache.memory import MemoryTier
from halfline.cache.semantic import SemanticTier
from halfline.cache.sqlite_tier import SqliteTier
from halfline.cache.store import Store
from halfline.cache.syntax import SyntaxTier
from halfline.cli.caches import CacheNumbers
from halfline.pipeline.complete import CompletionPipeline
from halfline.request import CompletionRequest, Document, Identity, SamplingParams
from halfline.telemetry.cache_collector import CacheCollector
from halfline.telemetry.metrics import Metrics

pytestmark = pytest.mark.anyio

BEFORE = "def f(a, b):\n    if a < b:\n        return g(a, b) + "


class Everything:
    name = "everything"
    num_dimensions = 2

    def embed(self, text: str) -> NDArray[np.float32]:
        return np.array([1, 0], np.float32)


def at(before: str, **changes: Any) -> CompletionRequest:
    prompt = Document(before, "", "a.py")
    base = CompletionRequest(id="", prompt=prompt, params=SamplingParams(), max_tokens=4, postprocess=False)
    return replace(base, **changes)


class Client:
    """Asks, and has each request counted as api/accounts.py does."""

    def __init__(self, pipeline: CompletionPipeline, metrics: Metrics) -> None:
        self._pipeline = pipeline
        self._metrics = metrics
        self._ids = map(str, itertools.count())
        self.num_asked = 0

    async def ask(self, asked: CompletionRequest) -> tuple[str, str | None]:
        """The text and its address."""
        request_id = next(self._ids)
        self.num_asked += 1
        answer = await self._pipeline.complete(replace(asked, id=request_id))
        receipt = await self._pipeline.final_receipt(request_id)
        assert receipt is not None
        self._metrics.completed(receipt)
        return answer.choices[0].text, receipt.address


def samples(metrics: Metrics) -> Counter[tuple[str, ...]]:
    """By name and the values of its labels, sorted by their names."""
    return Counter(
        {
            (sample.name, *(value for _, value in sorted(sample.labels.items()))): int(sample.value)
            for family in text_string_to_metric_families(metrics.exposition().decode())
            for sample in family.samples
        }
    )


async def ask_of_every_kind(store: Store) -> tuple[Counter[tuple[str, ...]], int]:
    """What is counted then, and how many of the requests asked could not be answered from what is kept."""
    metrics, fragments = Metrics(), Fragments(store, b"", 1e12)
    tiers = [SyntaxTier(store), SemanticTier(Everything(), 0.9)]
    async with running_pipeline(
        Babbler(), exact=ExactAnswers(store, b""), fragments=fragments, guessing=tiers
    ) as (pipeline, _):
        metrics.registry.register(CacheCollector(CacheNumbers(store, pipeline.proposals.totals)))
        client = Client(pipeline, metrics)
        text, address = await client.ask(at(BEFORE))
        await client.ask(at(BEFORE))  # exact
        await client.ask(at(BEFORE, max_tokens=3))  # typed
        await client.ask(at(BEFORE + text[:2]))  # continued
        await client.ask(at(BEFORE.replace("<", "<="), max_tokens=2))  # similar
        await client.ask(at(BEFORE.replace("a", "x"), identity=Identity("local", "ann", "a.py")))
        await client.ask(at("seeded", params=SamplingParams(temperature=1.0, seed=1)))
        await asyncio.gather(*(client.ask(at("one of several")) for _ in range(3)))
        unkept = [{"caching": "none"}, {"caching": "refresh"}, {"params": SamplingParams(temperature=1.0)}]
        for changes in unkept:
            await client.ask(at(BEFORE, **changes))
        assert address is not None and await fragments.get("local", address) is not None
        metrics.fetched()
        assert await fragments.get("local", "00" * 32) is None
        seen = samples(metrics)
        seen["asked",] = client.num_asked
        return seen, len(unkept)


async def test_after_requests_of_every_kind_the_counters_add_up(tmp_path: Path) -> None:
    def tier() -> SqliteTier:
        return SqliteTier(tmp_path / "answers.sqlite", 1 << 20, 1e12)

    empty = Store(MemoryTier(1 << 20, 1e12), [tier()])
    seen, num_unkept = await ask_of_every_kind(empty)
    check_sums(seen, num_unkept)
    assert seen["halfline_coalesced_total",] == 2
    assert seen["halfline_guesses_total", "proposed", "semantic"] > 0
    assert {
        seen["halfline_answers_total", tier] for tier in ("miss", "exact", "typed", "continued")
    }.isdisjoint({0})
    await asyncio.to_thread(empty.close)
    file = tier()
    file.open()
    ((key, _), *_) = file.newest(1 << 20)
    file.close()
    restarted = Store(MemoryTier(1 << 20, 1e12), [tier()])
    async with asyncio.timeout(60):
        while not restarted.may_fetch(key):
            await asyncio.sleep(0.001)
    seen, num_unkept = await ask_of_every_kind(restarted)
    check_sums(seen, num_unkept)
    await asyncio.to_thread(restarted.close)
    from_disk = seen["halfline_cache_events_total", "hit", "disk"]
    assert 0 < from_disk < seen["halfline_answers_total", "exact"]
    assert seen["halfline_cache_events_total", "wanted", "disk"] == 1, "for the keystroke"


def check_sums(seen: Counter[tuple[str, ...]], num_unkept: int) -> None:
    def of(name: str) -> dict[tuple[str, ...], int]:
        return {key[1:]: count for key, count in seen.items() if key[0] == name}

    answers, lookups = of("halfline_answers_total"), of("halfline_cache_lookups_total")
    events, guesses = of("halfline_cache_events_total"), of("halfline_guesses_total")
    (coalesced,) = of("halfline_coalesced_total").values()
    assert sum(answers.values()) == seen["asked",] + answers["http",]
    assert lookups["answer", "exact"] == answers["exact",]
    assert lookups["answer", "http"] == answers["http",] == lookups["nothing", "http"] == 1
    assert lookups["answer", "exact"] + lookups["nothing", "exact"] == seen["asked",] - num_unkept - coalesced
    assert events["hit", "memory"] + events["miss", "memory"] == sum(lookups.values())
    for tier in ("syntax", "semantic"):
        kinds = [guesses[kind, tier] for kind in ("looked", "proposed", "right", "whole")]
        assert kinds == sorted(kinds, reverse=True)
        assert guesses["whole", tier] == answers.get((tier,), 0)
    asked_tiers = {guesses["passed", tier] + guesses["looked", tier] for tier in ("syntax", "semantic")}
    assert len(asked_tiers) == 1, "the same requests come to both"
    assert lookups["answer", "syntax"] + lookups["nothing", "syntax"] <= guesses["looked", "syntax"]
