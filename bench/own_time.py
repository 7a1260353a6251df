"""What a decode step costs beside the model: planning, building the batch, choosing tokens, recording. Processor time.

The executor hands out prepared logits of a large vocabulary and their largest ones, as the native one does, and its own
time is taken out. Physics allows a few microseconds per sequence; what matters is the share of a step of 5 to 10 ms.

    python bench/own_time.py
"""

import json
import statistics
import time
from collections.abc import Sequence
from threading import Event

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from halfline.engine.options import EngineOptions
from halfline.engine.runner import Runner
from halfline.engine.scheduler import Scheduler
from halfline.engine.sequence import Work
from halfline.engine.speculation.speculation import Speculation
from halfline.kv.block_pool import BlockPool
from halfline.kv.prefix_index import PrefixIndex
from halfline.model.executor import Batch, Outputs, TopLogits
from halfline.model.random_model import random_checkpoint
from halfline.model.reference import top_logits
from halfline.request import SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler

VOCAB = 49152
PREPARED = 8
PROMPT, STEPS = 400, 300
ASKED = {
    "greedy": SamplingParams(),
    "greedy, 5 logprobs": SamplingParams(logprobs=5),
    "temperature 0.2, top-p 0.95": SamplingParams(temperature=0.2, top_p=0.95, seed=1),
    "top-k 40": SamplingParams(temperature=1.0, top_k=40, seed=1),
    "temperature 1": SamplingParams(temperature=1.0, seed=1),
    "repetition penalty": SamplingParams(repetition_penalty=1.1),
}


class PreparedLogits:
    """An executor that computes nothing; `seconds` is what it nevertheless took."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.spec = random_checkpoint(vocab_size=VOCAB, max_context=8192).spec
        self.stop_flag = Event()
        self.seconds = 0.0
        rows = np.random.default_rng(0).normal(0, 1.5, (PREPARED, VOCAB)).astype(np.float32)
        for row in range(PREPARED):  # a few likely tokens, as models have them
            rows[row, 1000 + 8 * row : 1008 + 8 * row] += np.linspace(17, 10, 8, dtype=np.float32)
        self._rows, self._top = rows, top_logits(rows, 128)
        self._random = np.random.default_rng(1)
        self._nothing = np.empty((0, self.spec.hidden_size), np.float32)

    def run(self, batch: Batch) -> Outputs | None:
        began = time.thread_time()
        rows = self._random.integers(0, PREPARED, len(batch.logit_rows))  # guesses seldom come true
        top = TopLogits(
            self._top.ids[rows, : batch.top_k],
            self._top.logits[rows, : batch.top_k],
            self._top.log_totals[rows],
        )
        outputs = Outputs(self._rows[rows], self._nothing, top if batch.top_k else None)
        self.seconds += time.thread_time() - began
        return outputs

    def copy_blocks(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """There is nothing in them."""

    def export_blocks(self, block_ids: Sequence[int]) -> NDArray[np.uint8]:
        return np.empty((len(block_ids), 0), np.uint8)

    def import_blocks(self, block_ids: Sequence[int], data: NDArray[np.uint8]) -> None:
        """There is nothing in them."""


class Marks:
    """A text of one character per token."""

    def push(self, token_id: int) -> str:
        return "x"

    def finish(self) -> str:
        return ""


def own_ms(params: SamplingParams, num_sequences: int, *, guesses: bool) -> float:
    """Median processor milliseconds per step in which every sequence decodes one token."""
    executor = PreparedLogits(4096)
    drafter = Speculation(16) if guesses else None
    scheduler = Scheduler(BlockPool(4096), PrefixIndex(), EngineOptions(), drafter)
    runner = Runner(executor)
    for number in range(num_sequences):
        prompt = np.random.default_rng(number).integers(0, VOCAB, PROMPT).tolist()
        asked = Work(
            prompt_ids=tuple(prompt),
            max_new_tokens=4000,
            sampler=Sampler(params, prompt),
            reader=Reader(Marks()),
            stop_token_ids=frozenset(),
            namespace="bench",
        )
        scheduler.add(number, asked, 0.0)
    times: list[float] = []
    now = 0.0
    while len(times) < STEPS:
        executor.seconds, began = 0.0, time.thread_time()
        plan = scheduler.plan(now)
        results = runner.run(plan)
        assert results is not None
        now += 0.005
        scheduler.commit(plan, results, now)
        took = time.thread_time() - began - executor.seconds
        if all(chunk.num_tokens == 1 for chunk in plan.chunks):
            times.append(took * 1e3)
    return statistics.median(times)


def main() -> None:
    table = Table(
        "", "1 sequence", "8 sequences", title="processor ms per decode step beside the model, medians"
    )
    found = {}
    for name, params in ASKED.items():
        found[name] = [own_ms(params, count, guesses=False) for count in (1, 8)]
    found["greedy, guessing"] = [own_ms(ASKED["greedy"], count, guesses=True) for count in (1, 8)]
    for name, times in found.items():
        table.add_row(name, *(f"{each:.3f}" for each in times))
    Console().print(table)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
