"""What drafts gain: the same answers generated with them and without, in turns, item by item.

Time is that of generating alone: an item's prompt is computed beforehand and only its last token is run again, so
that a side which accepts drafts in its very first step gets no time for free. It includes everything the engine does
in a step: planning, the executor, sampling, learning. Both sides must give the same tokens, or the benchmark fails.

What physics allows: a step of one row reads every weight; further rows add arithmetic only, so a step of n rows that
are all right gives n tokens for little more than the time of one. What is not in the text seen before cannot be
guessed: there the best is 1.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from halfline.engine.options import EngineOptions
from halfline.engine.runner import Runner
from halfline.engine.scheduler import Scheduler
from halfline.engine.sequence import Work
from halfline.engine.speculation.repeats import Repeats
from halfline.engine.speculation.speculation import Speculation
from halfline.kv.block_pool import BlockPool
from halfline.kv.prefix_index import PrefixIndex
from halfline.model.executor import Executor
from halfline.request import SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler
from halfline.sampling.stop import StopStrings
from halfline.text.detokenizer import Detokenizer
from halfline.text.tokenizer import Tokenizer

Side = Literal["plain", "drafted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One answer to generate. `others` are texts around the prompt that drafts may come from."""

    name: str
    prompt: str
    max_new_tokens: int
    others: tuple[str, ...] = ()
    params: SamplingParams


@dataclass(frozen=True, slots=True)
class Turn:
    """One side's way through one item. `num_tokens` counts what was sampled, a stop token included."""

    ms: float
    num_tokens: int
    num_steps: int
    num_drafted: int
    num_accepted: int


@dataclass(frozen=True, slots=True)
class Compared:
    item: str
    plain: Turn
    drafted: Turn

    @property
    def ratio(self) -> float:
        return self.plain.ms / self.drafted.ms


class SidesDisagree(Exception):
    """Drafts changed what was said: a mistake in the engine, not a result."""


class Speculating:
    """Both sides over one executor and one set of blocks: what one computed of a prompt the other reuses."""

    def __init__(
        self, executor: Executor, tokenizer: Tokenizer, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._runner = Runner(executor)
        self._tokenizer = tokenizer
        self._clock = clock
        pool, index, options = BlockPool(executor.num_blocks), PrefixIndex(), EngineOptions()
        self._sides: dict[Side, Scheduler] = {
            "plain": Scheduler(pool, index, options),
            "drafted": Scheduler(pool, index, options, Speculation(options.max_draft_tokens)),
        }
        self._max_prompt = min(executor.spec.max_context, executor.num_blocks * 16) - 64
        self._num_turns = 0
        self._indexed: dict[str, Repeats] = {}

    def compare(self, items: Iterable[Item]) -> list[Compared]:
        """Each item by both sides, one after the other; who is first changes. Raises SidesDisagree."""
        return [self._compare(item, number % 2 == 0) for number, item in enumerate(items)]

    def _compare(self, item: Item, plain_first: bool) -> Compared:
        prompt_ids = tuple(self._tokenizer.encode(item.prompt)[-self._max_prompt :])
        sources = tuple(self._index(text) for text in item.others)
        self._run("plain", self._work(item, prompt_ids, max_new_tokens=0))
        turns: dict[Side, Turn] = {}
        said: dict[Side, list[int]] = {}
        order: tuple[Side, Side] = ("plain", "drafted") if plain_first else ("drafted", "plain")
        for side in order:
            turns[side], said[side] = self._run(
                side, self._work(item, prompt_ids, max_new_tokens=item.max_new_tokens, sources=sources)
            )
        if said["plain"] != said["drafted"]:
            raise SidesDisagree(f"{item.name}: {said['plain']} without drafts, {said['drafted']} with them")
        return Compared(item.name, turns["plain"], turns["drafted"])

    def _run(self, side: Side, work: Work) -> tuple[Turn, list[int]]:
        scheduler = self._sides[side]
        self._num_turns += 1
        num_steps, said = 0, []
        started = self._clock()
        scheduler.add(self._num_turns, work, started)
        stats = None
        while stats is None:
            plan = scheduler.plan(self._clock())
            results = self._runner.run(plan)
            assert results is not None  # nobody sets the stop flag
            num_steps += 1
            for progress in scheduler.commit(plan, results, self._clock()):
                said += [token.token_id for token in progress.piece.tokens]
                stats = stats if progress.outcome is None else progress.outcome.stats
        ms = (self._clock() - started) * 1e3
        num_drafted, num_accepted = sum(stats.drafted.values()), sum(stats.accepted.values())
        return Turn(ms, stats.num_generated, num_steps, num_drafted, num_accepted), said

    def _work(
        self,
        item: Item,
        prompt_ids: tuple[int, ...],
        *,
        max_new_tokens: int,
        sources: tuple[Repeats, ...] = (),
    ) -> Work:
        return Work(
            prompt_ids=prompt_ids,
            max_new_tokens=max_new_tokens,
            sampler=Sampler(item.params, prompt_ids),
            reader=Reader(Detokenizer(self._tokenizer), [StopStrings(item.params.stop)]),
            stop_token_ids=self._tokenizer.eos_ids,
            namespace="bench",
            draft_sources=sources,
        )

    def _index(self, text: str) -> Repeats:
        """Made once per text, as the pipeline does: what stands around the cursor hardly changes while one types."""
        if text not in self._indexed:
            self._indexed[text] = Repeats(self._tokenizer.encode(text))
        return self._indexed[text]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Of one workload. Ratios are times without drafts over times with them: more is faster.

    `ratio` is of the summed times; `median` and `p10` are over the items, of which short ones vary by a step.
    """

    num_items: int
    num_tokens: int
    ratio: float
    median: float
    p10: float
    acceptance: float
    tokens_per_step: float
    plain_ms_per_token: float


def summarize(compared: Sequence[Compared]) -> Gain:
    """Needs at least one item."""
    ratios = sorted(each.ratio for each in compared)
    plain_ms = sum(each.plain.ms for each in compared)
    num_tokens = sum(each.plain.num_tokens for each in compared)
    num_drafted = sum(each.drafted.num_drafted for each in compared)
    return Gain(
        num_items=len(compared),
        num_tokens=num_tokens,
        ratio=plain_ms / sum(each.drafted.ms for each in compared),
        median=ratios[len(ratios) // 2],
        p10=ratios[len(ratios) // 10],
        acceptance=sum(each.drafted.num_accepted for each in compared) / max(1, num_drafted),
        tokens_per_step=num_tokens / sum(each.drafted.num_steps for each in compared),
        plain_ms_per_token=plain_ms / num_tokens,
    )
