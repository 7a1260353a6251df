"""What several greedy steps in one call are worth to a request that is alone, and what they cost one that arrives.

    python -m bench.greedy_runs MODEL.gguf [--turns 24] [--speculation auto]

One engine for each length of a run, on one executor; they take turns with the same prompts of real text, who is first
changes. A token's time is that between the first token and the last, over their number, as the event loop that follows
them sees it; ratios are of turns with the same prompt. The newcomer asks for one token behind a prompt of 16 while the
other is decoding, at a random moment.

At best a run saves what Python takes between two steps, and what of the caches it takes with it.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from halfline.engine.handle import EngineHandle
from halfline.engine.options import EngineOptions
from halfline.engine.sequence import Work
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.quality.texts import default_texts
from halfline.request import SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler
from halfline.text.detokenizer import Detokenizer
from halfline.text.tokenizer import Tokenizer

LENGTHS = (1, 2, 4, 8)
_PROMPT_TOKENS = 256
_NEW_TOKENS = 104
_NUM_BLOCKS = 1024


@dataclass
class Turns:
    """Milliseconds of a token of each turn, of a newcomer's wait, and what was said."""

    token_ms: list[float] = field(default_factory=list)
    wait_ms: list[float] = field(default_factory=list)
    said: list[list[int]] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--turns", type=int, default=24)
    parser.add_argument("--speculation", choices=("auto", "off"), default="off")
    asked = parser.parse_args()
    checkpoint = open_checkpoint(asked.model)
    tokenizer = Tokenizer(checkpoint.vocab)
    executor = NativeExecutor(checkpoint, num_blocks=_NUM_BLOCKS)
    checkpoint.close()
    texts = [tokenizer.encode(path.read_text("utf-8")) for path in default_texts()]
    engines = {
        length: EngineHandle(
            executor,
            # They share an arena, and know nothing of each other's blocks.
            EngineOptions(run_tokens=length, speculation=asked.speculation, prefix_caching="off"),
        )
        for length in LENGTHS
    }
    turns = asyncio.run(_measure(engines, tokenizer, texts, asked.turns))
    for engine in engines.values():
        engine.close(0.0)
    assert all(each.said == turns[1].said for each in turns.values()), "runs changed what was said"
    print(json.dumps({length: _summary(each, turns[1]) for length, each in turns.items()}))


async def _measure(
    engines: Mapping[int, EngineHandle], tokenizer: Tokenizer, texts: Sequence[Sequence[int]], count: int
) -> dict[int, Turns]:
    chance = random.Random(1)
    turns = {length: Turns() for length in engines}
    for engine in engines.values():
        engine.start()
    for number in range(count):
        text = texts[number % len(texts)]
        first = chance.randrange(len(text) - _PROMPT_TOKENS)
        prompt = tuple(text[first : first + _PROMPT_TOKENS])
        after_s = chance.uniform(0.0, 0.05)
        for length in chance.sample(list(engines), len(engines)):
            engine, took = engines[length], turns[length]
            token_ms, said = await _alone(engine, tokenizer, prompt)
            took.token_ms.append(token_ms)
            took.said.append(said)
            took.wait_ms.append(await _newcomer_ms(engine, tokenizer, prompt, after_s, seed=number))
    return turns


async def _alone(
    engine: EngineHandle, tokenizer: Tokenizer, prompt: tuple[int, ...]
) -> tuple[float, list[int]]:
    said: list[int] = []
    times: list[float] = []
    async for _, progress in engine.submit([_work(tokenizer, prompt, _NEW_TOKENS)]):
        said += [token.token_id for token in progress.sampled]
        times.append(time.perf_counter())
    return (times[-1] - times[0]) * 1e3 / (len(said) - 1), said


async def _newcomer_ms(
    engine: EngineHandle, tokenizer: Tokenizer, prompt: tuple[int, ...], after_s: float, *, seed: int
) -> float:
    """Until its only token, asked for so long after the other said its twentieth."""
    generation = engine.submit([_work(tokenizer, prompt, _NEW_TOKENS)])
    num_said = 0
    async for _, progress in generation:
        num_said += len(progress.sampled)
        if num_said >= 20:
            break
    await asyncio.sleep(after_s)
    started = time.perf_counter()
    async for _ in engine.submit([_work(tokenizer, (seed, *prompt[:15]), 1)]):
        pass
    waited_ms = (time.perf_counter() - started) * 1e3
    generation.cancel()
    async for _ in generation:
        pass
    return waited_ms


def _work(tokenizer: Tokenizer, prompt: tuple[int, ...], max_new_tokens: int) -> Work:
    return Work(
        prompt_ids=prompt,
        max_new_tokens=max_new_tokens,
        sampler=Sampler(SamplingParams(), prompt),
        reader=Reader(Detokenizer(tokenizer)),
        stop_token_ids=frozenset(),
        namespace="bench",
    )


def _summary(side: Turns, without: Turns) -> dict[str, object]:
    ratios = [one / other for one, other in zip(without.token_ms, side.token_ms, strict=True)]
    return {
        "token_ms": _quartiles(side.token_ms),
        "without_over_with": _quartiles(ratios),
        "wait_ms": _quartiles(side.wait_ms),
    }


def _quartiles(values: Sequence[float]) -> list[float]:
    return [round(each, 3) for each in statistics.quantiles(values, n=4)]


if __name__ == "__main__":
    main()
