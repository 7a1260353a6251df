"""The whole engine with and without reuse, and with very many sequences at once.

What reuse may gain at most is prompt tokens over tokens still to compute; what is left of it after look-up, copy and
the scheduler's own time is measured as time to the first token, cold and warm in turns.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from halfline.engine.handle import EngineHandle
from halfline.engine.sequence import Outcome, Work
from halfline.request import Priority, SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler


@dataclass(frozen=True, slots=True)
class Reuse:
    """Milliseconds to the first token for a prompt of `num_tokens`, one entry per round.

    cold: nothing of it known · typed: all but its last three tokens, which lie within a block · known: all of it.
    """

    num_tokens: int
    cold: list[float] = field(default_factory=list)
    typed: list[float] = field(default_factory=list)
    known: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Many sequences at once. `grown_bytes` is how much the process's resident size grew meanwhile."""

    num_sequences: int
    num_blocks: int
    peak_held_blocks: int
    num_finished: int
    num_preemptions: int
    seconds: float
    grown_bytes: int


def measure_reuse(engine: EngineHandle, vocab_size: int, lengths: Sequence[int], rounds: int) -> list[Reuse]:
    """Prompts are random tokens, new ones in every round."""
    generator = random.Random(0)
    results = [Reuse(length) for length in lengths]
    for _ in range(rounds):
        for result in results:
            prompt = [generator.randrange(vocab_size) for _ in range(result.num_tokens)]
            typed = [*prompt[:-3], *(generator.randrange(vocab_size) for _ in range(3))]
            for times, asked in ((result.cold, prompt), (result.typed, typed), (result.known, prompt)):
                (outcome,) = asyncio.run(complete(engine, [asked], 1))
                times.append(outcome.stats.queue_ms + outcome.stats.prefill_ms)
    return results


def measure_crowd(
    engine: EngineHandle,
    vocab_size: int,
    num_sequences: int,
    *,
    shared_tokens: int,
    own_tokens: int,
    new_tokens: int,
) -> Crowd:
    """All arrive at once; the first `shared_tokens` of every prompt are the same for all."""
    generator = random.Random(1)
    shared = [generator.randrange(vocab_size) for _ in range(shared_tokens)]
    prompts = [
        [*shared, *(generator.randrange(vocab_size) for _ in range(own_tokens))] for _ in range(num_sequences)
    ]
    return asyncio.run(_crowd(engine, prompts, new_tokens))


async def _crowd(engine: EngineHandle, prompts: list[list[int]], new_tokens: int) -> Crowd:
    loop = asyncio.get_running_loop()
    before, started, rss = engine.stats(), loop.time(), _resident_bytes()
    running = asyncio.create_task(complete(engine, prompts, new_tokens))
    peak_held = 0
    while not running.done():
        peak_held = max(peak_held, engine.stats().num_held_blocks)
        await asyncio.sleep(0.002)
    outcomes = await running
    after = engine.stats()
    return Crowd(
        num_sequences=len(prompts),
        num_blocks=after.num_blocks,
        peak_held_blocks=peak_held,
        num_finished=sum(outcome.finish_reason == "length" for outcome in outcomes),
        num_preemptions=after.total_preemptions - before.total_preemptions,
        seconds=loop.time() - started,
        grown_bytes=_resident_bytes() - rss,
    )


async def complete(
    engine: EngineHandle,
    prompts: Sequence[Sequence[int]],
    new_tokens: int,
    last_class: Priority = "interactive",
) -> list[Outcome]:
    """All of them at once: keystrokes, but for the last, which may be of another class."""
    works = [
        Work(
            prompt_ids=tuple(prompt),
            max_new_tokens=new_tokens,
            sampler=Sampler(SamplingParams(), prompt),
            reader=Reader(_NoText()),
            stop_token_ids=frozenset(),
            namespace="bench",
            priority=last_class if number == len(prompts) else "interactive",
        )
        for number, prompt in enumerate(prompts, 1)
    ]
    generation = engine.submit(works)
    async for _ in generation:
        pass
    return [generation.outcomes[position] for position in range(len(prompts))]


class _NoText:
    """Tokens are all that matters here."""

    def push(self, token_id: int) -> str:
        return ""

    def finish(self) -> str:
        return ""


def _resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
