"""The embedded model says the same with drafts and without, token by token, score by score, draw by draw."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from halfline.engine.options import EngineOptions
from halfline.engine.runner import Runner
from halfline.engine.scheduler import Scheduler
from halfline.engine.sequence import Work
from halfline.engine.speculation.speculation import Speculation
from halfline.engine.stats import EngineStats
from halfline.kv.block_pool import BlockPool
from halfline.kv.prefix_index import PrefixIndex
from halfline.model.kv_format import F16, INT8, KvFormat
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.quality.texts import default_texts
from halfline.request import SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler, Scored
from halfline.text.detokenizer import Detokenizer
from halfline.text.tokenizer import Tokenizer

NUM_PROMPTS = 210
NUM_NEW = 8
NUM_BLOCKS = 600


@dataclass(frozen=True, slots=True)
class Machine:
    """One executor, its accounts, and prompts of real code. What one run computed the next one reuses."""

    executor: NativeExecutor
    tokenizer: Tokenizer
    pool: BlockPool
    index: PrefixIndex
    prompts: tuple[tuple[int, ...], ...]

    def run(
        self, asked: list[tuple[tuple[int, ...], SamplingParams]], drafter: Speculation | None
    ) -> tuple[list[list[Scored]], EngineStats]:
        """What follows each prompt. Time is made up, so that what is drafted does not depend on the machine."""
        options = EngineOptions(step_tokens=128, max_num_seqs=8)
        scheduler = Scheduler(self.pool, self.index, options, drafter, self.executor.kv_format)
        runner = Runner(self.executor)
        for number, (prompt, params) in enumerate(asked):
            scheduler.add(number, self._work(prompt, params), 0.0)
        now, found = 0.0, defaultdict[int, list[Scored]](list)
        while not scheduler.idle:
            plan = scheduler.plan(now)
            results = runner.run(plan)
            assert results is not None
            now += 0.005 + 0.0002 * plan.num_rows
            for progress in scheduler.commit(plan, results, now):
                found[progress.sequence_id] += progress.piece.tokens
        scheduler.check()
        return [found[number] for number in range(len(asked))], scheduler.stats()

    def _work(self, prompt: tuple[int, ...], params: SamplingParams) -> Work:
        return Work(
            prompt_ids=prompt,
            max_new_tokens=NUM_NEW,
            sampler=Sampler(params, prompt),
            reader=Reader(Detokenizer(self.tokenizer)),
            stop_token_ids=self.tokenizer.eos_ids,
            namespace="me",
        )


@pytest.fixture(scope="module")
def machine(embedded_model: Path) -> Machine:
    return machine_with(embedded_model, F16)


def machine_with(model: Path, kv_format: KvFormat) -> Machine:
    checkpoint = open_checkpoint(model)
    tokenizer = Tokenizer(checkpoint.vocab)
    executor = NativeExecutor(checkpoint, num_blocks=NUM_BLOCKS, kv_format=kv_format)
    checkpoint.close()
    texts = [tokenizer.encode(path.read_text("utf-8")) for path in default_texts()]
    per_text = -(-NUM_PROMPTS // len(texts))
    # As while typing, each prompt is the one before and a few tokens more.
    prompts = tuple(tuple(text[: 40 + 7 * step]) for text in texts for step in range(per_text))
    return Machine(executor, tokenizer, BlockPool(NUM_BLOCKS), PrefixIndex(), prompts)


def test_greedy_tokens_are_identical_on_two_hundred_prompts(machine: Machine) -> None:
    asked = [(prompt, SamplingParams()) for prompt in machine.prompts]
    assert len(set(machine.prompts)) >= 200
    plain, _ = machine.run(asked, None)
    drafted, stats = machine.run(asked, Speculation(16))
    assert drafted == plain
    accepted, tried = (
        sum(counts.values()) for counts in (stats.total_accepted_tokens, stats.total_drafted_tokens)
    )
    assert accepted > 100, "right guesses were followed"
    assert tried - accepted > 100, "and wrong ones left behind"


def test_drawn_tokens_and_their_logprobs_are_identical_for_the_same_seeds(machine: Machine) -> None:
    asked = [
        (prompt, SamplingParams(temperature=0.4, top_p=0.95, repetition_penalty=1.1, seed=seed, logprobs=2))
        for seed, prompt in enumerate(machine.prompts[::6])
    ]
    plain, _ = machine.run(asked, None)
    drafted, stats = machine.run(asked, Speculation(16))
    assert drafted == plain
    assert sum(stats.total_accepted_tokens.values()) > 0, "a guess was followed"


def test_with_kv_in_int8_drafts_change_nothing_either(embedded_model: Path) -> None:
    machine = machine_with(embedded_model, INT8)
    asked = [(prompt, SamplingParams()) for prompt in machine.prompts[::6]]
    plain, _ = machine.run(asked, None)
    drafted, stats = machine.run(asked, Speculation(16))
    assert drafted == plain
    assert sum(stats.total_accepted_tokens.values()) > 0, "a guess was followed"
