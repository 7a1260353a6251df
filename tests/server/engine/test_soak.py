"""Thousands of requests of every kind through one engine: nothing grows, nothing leaks, nothing slows down.

A third is called off at a random point, a fifth asks what another one asks or asked; several choices, all classes,
streamed or not, documents and raw prompts, through an arena that is too small for all of them. In between, and with
nothing else running, the same probe must take the same steps, and the engine walks its books, as it does whenever it
has been idle for a second.
"""

import asyncio
import gc
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from halfline.engine.handle import EngineHandle
from halfline.engine.options import EngineOptions
from halfline.errors import Overloaded
from halfline.model.random_model import random_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.options import PipelineOptions
from halfline.request import CompletionRequest, Document, Identity, Priority, SamplingParams
from halfline.text.tokenizer import Tokenizer

PATIENCE_S = 60.0
QUIET_S = 1.1  # long enough for the engine to walk its books
NUM_CLIENTS = 12
FULL_AFTER = 7000
"""Requests until what is remembered on purpose, predicted tokens above all, is as much as it may become."""

TENANTS = ("ann", "ben", "cid")
PRIORITIES: tuple[Priority, ...] = ("interactive", "batch", "idle")
PROBE = "".join(chr(97 + place % 23) for place in range(150))
PROBE_STEPS = 3 + 7 + 4
"""150 tokens in steps of 64, then one token each until there are 8, then four runs of 4 (engine/greedy_runs.py)."""


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@dataclass
class Sample:
    """Between two stretches of traffic, with nothing running."""

    num_requests: int
    resident_bytes: int
    num_objects: int
    probe_steps: int
    num_steps: int
    num_generated: int


@dataclass
class Soak:
    """`report` is what it came to; everything that has to hold at every moment is asserted on the way."""

    random: Random
    pipeline: CompletionPipeline
    engine: EngineHandle
    recent: list[CompletionRequest] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)
    num_asked: int = 0

    async def run(self, num_requests: int, num_stretches: int) -> None:
        await self._sample()
        for stretch in range(num_stretches):
            until = num_requests * (stretch + 1) // num_stretches
            await asyncio.gather(*(self._client(until) for _ in range(NUM_CLIENTS)))
            await self._sample()

    async def _client(self, until: int) -> None:
        while self.num_asked < until:
            self.num_asked += 1
            request = self._next_request()
            gives_up_after = self.random.randrange(20) if self.random.random() < 0.3 else None
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._ask(request, gives_up_after)
            except Overloaded:
                self.ends["refused"] += 1

    async def _ask(self, request: CompletionRequest, gives_up_after: int | None) -> None:
        """`gives_up_after` so many turns of the event loop, or deltas of a stream; None: it stays to the end."""
        if self.random.random() < 0.5:
            async with aclosing(self.pipeline.stream(request)) as deltas:
                num_deltas = 0
                async for delta in deltas:
                    num_deltas += 1
                    if delta.finish_reason is not None:
                        self.ends[delta.finish_reason] += 1
                    if num_deltas == gives_up_after:
                        break
            return
        asked = asyncio.create_task(self.pipeline.complete(request))
        if gives_up_after is not None:
            for _ in range(gives_up_after):
                await asyncio.sleep(0.001)
            if self.random.random() < 0.5:
                asked.cancel()
            else:
                self.pipeline.cancel(request.id, request.tenant)
        try:
            for choice in (await asked).choices:
                self.ends[choice.finish_reason] += 1
        except asyncio.CancelledError:
            self.ends["left"] += 1

    def _next_request(self) -> CompletionRequest:
        random = self.random
        if self.recent and random.random() < 0.2:
            return replace(random.choice(self.recent), id=f"r{self.num_asked}")
        text = "".join(random.choices("ab\n", [5, 5, 1], k=random.randint(1, 180)))
        editor = random.random() < 0.5
        user = random.choice(TENANTS)
        request = CompletionRequest(
            id=f"r{self.num_asked}",
            prompt=Document(text, text[:20], "x.py") if editor else PROBE[: random.randint(0, 100)] + text,
            params=SamplingParams(
                temperature=random.choice([0.0, 0.0, 0.7]),
                top_p=random.choice([1.0, 0.9]),
                logprobs=random.choice([None, None, 2]),
                seed=random.choice([None, 3]),
                stop=random.choice([(), ("q", "zz")]),
                ignore_eos=True,
            ),
            max_tokens=random.randint(0 if not editor else 1, 40),
            num_choices=random.choice([1, 1, 1, 2, 3]),
            tenant=random.choice(TENANTS),
            user=user,
            priority=random.choices(PRIORITIES, [6, 2, 2])[0],
            identity=Identity("t", user, "x.py") if editor and random.random() < 0.3 else None,
        )
        self.recent = [*self.recent[-30:], request]
        return request

    async def _sample(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while (stats := self.engine.stats()).num_running or stats.num_waiting:
                await asyncio.sleep(0.01)
        before = self.engine.stats()
        probe = CompletionRequest(
            id=f"probe {self.num_asked}",
            prompt=PROBE,
            params=SamplingParams(ignore_eos=True),
            max_tokens=24,
            tenant=f"probe {self.num_asked}",
        )
        await self.pipeline.complete(probe)
        await asyncio.sleep(QUIET_S)
        assert self.engine.failure is None, "its books were wrong"
        stats = self.engine.stats()
        assert stats.num_held_blocks == 0
        assert stats.num_cached_blocks + stats.num_blank_blocks == stats.num_blocks
        self.samples.append(
            Sample(
                self.num_asked,
                resident_bytes(),
                sys.getallocatedblocks(),
                stats.total_steps - before.total_steps,
                stats.total_steps,
                stats.total_generated_tokens,
            )
        )


@asynccontextmanager
async def soaking(seed: int) -> AsyncIterator[Soak]:
    checkpoint = random_checkpoint(max_context=512, seed=3)
    executor = NativeExecutor(checkpoint, num_blocks=72, num_threads=1)
    # No guesses and no short steps, which depend on the machine's mood: how many steps a probe takes must not.
    options = EngineOptions(
        step_tokens=64, step_ms=1e6, max_num_seqs=16, max_waiting=24, patience_s=0.5, speculation="off"
    )
    engine = EngineHandle(executor, options)
    engine.start()
    tokenizer = Tokenizer(checkpoint.vocab)
    pipeline_options = PipelineOptions(
        prefix_tokens=64, fresh_prefix_tokens=64, suffix_tokens=16, kept_receipts=64
    )
    pipeline = CompletionPipeline(engine, tokenizer, executor.spec, pipeline_options)
    try:
        yield Soak(Random(seed), pipeline, engine)
    finally:
        await asyncio.to_thread(engine.close, 0.0)


async def soak(num_requests: int, num_stretches: int, seed: int) -> Soak:
    async with soaking(seed) as traffic:
        await traffic.run(num_requests, num_stretches)
    return traffic


def test_hundreds_of_requests_of_which_a_third_is_called_off_leave_nothing_behind() -> None:
    traffic = asyncio.run(soak(400, 2, seed=1))
    assert {sample.probe_steps for sample in traffic.samples} == {PROBE_STEPS}
    assert {"length", "cancelled", "left"} <= traffic.ends.keys()
    assert traffic.engine.stats().total_preemptions > 0, "the arena was too small for all of them"


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_ten_thousand_requests_leave_memory_flat_and_the_engine_as_fast_as_at_first() -> None:
    began = time.process_time()
    traffic = asyncio.run(soak(10_000, 20, seed=2))
    for sample in traffic.samples:
        print(sample)
    print(dict(traffic.ends), f"{time.process_time() - began:.0f} s of CPU, {traffic.engine.stats()}")
    assert {sample.probe_steps for sample in traffic.samples} == {PROBE_STEPS}
    late = [sample for sample in traffic.samples if sample.num_requests >= FULL_AFTER]
    num_requests = late[-1].num_requests - late[0].num_requests
    # Measured: one object in twenty requests, 430 bytes each. One that left anything would leave several objects.
    assert late[-1].num_objects - late[0].num_objects < 0.5 * num_requests
    assert late[-1].resident_bytes - late[0].resident_bytes < 1024 * num_requests
    steps = [
        (late.num_steps - early.num_steps) / (late.num_generated - early.num_generated)
        for early, late in zip(traffic.samples, traffic.samples[1:], strict=False)
    ]
    assert np.mean(steps[-5:]) < 1.2 * np.mean(steps[:5]), "steps per token"
