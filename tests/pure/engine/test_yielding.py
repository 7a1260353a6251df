"""What a keystroke waits for when the engine is at idle work, counted in layers of a model."""

import asyncio
import threading

import pytest
from character_work import Characters

from halfline.engine.handle import EngineHandle, Generation
from halfline.engine.options import EngineOptions
from halfline.engine.sequence import Work
from halfline.model.executor import Batch, Outputs
from halfline.model.random_model import random_checkpoint
from halfline.model.reference import Array, EventFlag, ReferenceExecutor
from halfline.request import Priority, SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler

PATIENCE_S = 30.0
NUM_LAYERS = 5
OPTIONS = EngineOptions(step_tokens=16, max_num_seqs=4, speculation="off")


class Flag(EventFlag):
    def wait(self) -> bool:
        return self._event.wait(PATIENCE_S)


class Layered(ReferenceExecutor):
    """Notes of each layer that begins whose rows are in it. The second step halts in layer `halts_in`, once, until it
    is wanted to stop; None: never.
    """

    def __init__(self, halts_in: int | None = None) -> None:
        super().__init__(random_checkpoint(num_layers=NUM_LAYERS), 32)
        self._stop_flag = self.flag = Flag()
        self.begun: list[tuple[str, int]] = []
        self.halted = threading.Event()
        self._halts_in = halts_in
        self._num_steps = 0
        self._first_block: int | None = None  # of what was there first
        self._whose = ""

    def run(self, batch: Batch) -> Outputs | None:
        self._num_steps += 1
        blocks = [int(each) for each in batch.block_tables[:, 0]]
        if self._first_block is None:
            self._first_block = blocks[0]
        self._whose = "+".join("idle" if each == self._first_block else "typed" for each in blocks)
        return super().run(batch)

    def _attention(self, layer: int, x: Array, batch: Batch) -> Array:
        self.begun.append((self._whose, layer))
        if self._num_steps == 2 and layer == self._halts_in and not self.halted.is_set():
            self.halted.set()
            assert self.flag.wait(), "idle work was to stop"
        return super()._attention(layer, x, batch)


def work(first: int, length: int, count: int, priority: Priority) -> Work:
    prompt = (first, *range(10, 9 + length))
    return Work(
        prompt_ids=prompt,
        max_new_tokens=count,
        sampler=Sampler(SamplingParams(), prompt),
        reader=Reader(Characters()),
        stop_token_ids=frozenset(),
        namespace="me",
        priority=priority,
    )


def idle_work() -> Work:
    return work(1, 48, 2, "idle")


def typed_work() -> Work:
    return work(2, 6, 3, "interactive")


async def tokens_of(generation: Generation) -> list[int]:
    return [token.token_id async for _, progress in generation for token in progress.piece.tokens]


def alone(asked: Work) -> list[int]:
    engine = EngineHandle(Layered(), OPTIONS)

    async def main() -> list[int]:
        return await tokens_of(engine.submit([asked]))

    engine.start()
    try:
        return asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
    finally:
        engine.close(0.0)


@pytest.mark.parametrize("layer", range(NUM_LAYERS))
def test_a_keystroke_waits_for_the_layer_that_has_begun_and_for_none_after_it(layer: int) -> None:
    executor = Layered(halts_in=layer)
    engine = EngineHandle(executor, OPTIONS)

    async def main() -> tuple[list[int], list[int]]:
        idle = engine.submit([idle_work()])
        assert await asyncio.to_thread(executor.halted.wait, PATIENCE_S)
        assert executor.begun[-1] == ("idle", layer)
        del executor.begun[:]
        typed = await tokens_of(engine.submit([typed_work()]))
        # Of the prompt's step and one for each further token, every layer, and nobody else's row beside them.
        steps = [("typed", each) for each in range(NUM_LAYERS)] * 3
        assert executor.begun[: len(steps)] == steps
        return typed, await tokens_of(idle)

    engine.start()
    try:
        typed, idle = asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
    finally:
        engine.close(0.0)
    assert (typed, idle) == (alone(typed_work()), alone(idle_work()))
