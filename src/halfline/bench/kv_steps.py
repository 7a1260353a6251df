"""Steps by the KV they read: in either format, together or apart, and how long they are while somebody waits.

A decode step behind N places reads the weights once and N places of KV; int8 halves the second and pays for unpacking.
Sequences that begin with the same blocks read those once for all of them. Each pair is measured in turns.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from halfline.bench.kv_engine import complete
from halfline.bench.steps import batch_of, random_tokens
from halfline.engine.handle import EngineHandle
from halfline.engine.options import EngineOptions
from halfline.model.executor import BLOCK_TOKENS, Batch, Executor, Outputs

_STEPS = 8  # of one turn; fewer than a block, so that none is filled and places can be written again
_FILL_ROWS = 256
_LEARNING_STEPS = 8  # until the engine knows how many rows a step has time for


@dataclass(frozen=True, slots=True)
class Turns:
    """Milliseconds of a step, one entry per round: `one` and `other` took turns."""

    one: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """The other's time over the one's, round by round."""
        return [other / one for one, other in zip(self.one, self.other, strict=True)]


@dataclass(frozen=True, slots=True)
class WaitingSteps:
    """Steps with rows of a prompt in them while somebody else waits: how long, and how many rows."""

    ms: list[float] = field(default_factory=list)
    num_rows: list[int] = field(default_factory=list)


def measure_formats(one: Executor, other: Executor, places: Sequence[int], rounds: int) -> dict[int, Turns]:
    """A decode step of one sequence behind so many places; `places` are whole blocks, in rising order.

    Both executors have blocks for the last of them, a further block, and what their format wants for an open one.
    """
    turns: dict[int, Turns] = {}
    filled = 0
    for place in places:
        for executor in (one, other):
            _fill(executor, filled, place)
        filled = place
        turns[place] = Turns()
        for _ in range(rounds):
            turns[place].one.append(_decode_ms(one, place))
            turns[place].other.append(_decode_ms(other, place))
    return turns


def measure_shared(executor: Executor, num_sequences: int, num_places: int, rounds: int) -> Turns:
    """A decode step of sequences behind the same places: each with a copy of its own (one), all in the same blocks."""
    num_blocks = num_places // BLOCK_TOKENS
    _fill(executor, 0, num_places)
    shared = np.tile(np.arange(num_blocks, dtype=np.int32), (num_sequences, 1))
    apart = num_blocks * (1 + np.arange(num_sequences, dtype=np.int32)[:, None]) + shared
    for copies in apart:
        executor.copy_blocks(range(num_blocks), copies.tolist())
    last = np.arange(num_sequences, dtype=np.int32)[:, None] + num_blocks * (1 + num_sequences)
    tokens = random_tokens(executor, num_sequences)
    step = batch_of(tokens, num_sequences, num_places, num_blocks + 1)
    turns = Turns()
    for _ in range(rounds):
        for tables, times in ((apart, turns.one), (shared, turns.other)):
            times.append(
                _timed_ms(executor, [replace(step, block_tables=np.hstack((tables, last)))] * _STEPS)
            )
    return turns


def measure_waiting(executor: Executor, num_tokens: int) -> WaitingSteps:
    """Three keystrokes' prompts and one of batch work, which keeps steps short to its end, arrive at once."""
    timed = _Timed(executor)
    engine = EngineHandle(timed, EngineOptions(speculation="off"))
    engine.start()
    try:
        generator = random.Random(2)
        prompts = [
            [generator.randrange(executor.spec.vocab_size) for _ in range(num_tokens)] for _ in range(4)
        ]
        asyncio.run(complete(engine, prompts, 1, last_class="batch"))
    finally:
        engine.close(0.0)
    steps = [each for each in timed.steps if each[0] > len(prompts)][_LEARNING_STEPS:]
    return WaitingSteps([ms for _, ms in steps], [num_rows for num_rows, _ in steps])


class _Timed:
    """An executor that keeps how many rows its steps had and how long they took."""

    def __init__(self, executor: Executor) -> None:
        self.spec = executor.spec
        self.num_blocks = executor.num_blocks
        self.kv_format = executor.kv_format
        self.stop_flag = executor.stop_flag
        self.copy_blocks = executor.copy_blocks
        self.export_blocks = executor.export_blocks
        self.import_blocks = executor.import_blocks
        self.steps: list[tuple[int, float]] = []
        self._executor = executor

    def run(self, batch: Batch) -> Outputs | None:
        began = time.perf_counter()
        outputs = self._executor.run(batch)
        self.steps.append((len(batch.token_ids), (time.perf_counter() - began) * 1e3))
        return outputs


def _fill(executor: Executor, start: int, stop: int) -> None:
    """Write the KV of places [start, stop) of the sequence that owns all blocks in their order."""
    tokens = random_tokens(executor, stop - start)
    for first in range(0, stop - start, _FILL_ROWS):
        rows = tokens[first : first + _FILL_ROWS]
        executor.run(batch_of(rows, 1, start + first, executor.num_blocks, wanted="hidden"))


def _decode_ms(executor: Executor, place: int) -> float:
    tokens = random_tokens(executor, _STEPS)
    return _timed_ms(
        executor,
        [batch_of(tokens[step : step + 1], 1, place + step, executor.num_blocks) for step in range(_STEPS)],
    )


def _timed_ms(executor: Executor, batches: Sequence[Batch]) -> float:
    """Of one of the batches, in the mean."""
    began = time.perf_counter()
    for batch in batches:
        executor.run(batch)
    return (time.perf_counter() - began) * 1e3 / len(batches)
