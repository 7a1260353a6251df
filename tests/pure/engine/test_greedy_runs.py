"""Several steps in a row give what single steps give, and only where nobody looks at a token in between."""

import asyncio
import threading
from dataclasses import replace

import pytest
from character_work import GREEDY, alone, ids, prompt_of, text, work
from decoding import Decoding
from guessers import Scripted, right
from overflowing import OverflowingFrom
from running_engine import PATIENCE_S, running_engine, tokens_of
from stepped_engine import SteppedEngine

from halfline.engine.greedy_runs import GreedyRuns
from halfline.engine.options import EngineOptions
from halfline.engine.plan import next_chunk
from halfline.engine.sequence import Sequence
from halfline.kv.block_pool import BlockPool
from halfline.kv.block_table import BlockTable
from halfline.kv.prefix_index import PrefixIndex
from halfline.model.executor import Batch
from halfline.model.kv_format import F16, INT8, KvFormat
from halfline.request import Priority, SamplingParams

SINGLE = 8  # tokens before the first run
FORMATS = pytest.mark.parametrize("kv_format", [F16, INT8], ids=["f16", "int8"])


def run_lengths(engine: SteppedEngine) -> list[int]:
    return [chunk.run_tokens for plan in engine.plans for chunk in plan.chunks]


@FORMATS
@pytest.mark.parametrize("num_new", [SINGLE, SINGLE + 1, SINGLE + 3, 60])
def test_a_lone_greedy_sequence_goes_on_by_itself_and_never_past_its_last_token(
    num_new: int, kv_format: KvFormat
) -> None:
    engine = SteppedEngine(Decoding(64, kv_format=kv_format))
    engine.add(0, work(prompt_of(21, seed=1), num_new))
    engine.run()
    assert engine.tokens[0] == alone(prompt_of(21, seed=1), num_new)
    assert engine.outcomes[0].stats.num_computed == 21 + num_new - 1
    num_fours, num_last = divmod(num_new - SINGLE, 4)
    assert run_lengths(engine) == [1] * SINGLE + [4] * num_fours + [num_last] * (num_last > 0)


@FORMATS
def test_what_a_run_computed_is_what_the_next_prompt_begins_with(kv_format: KvFormat) -> None:
    prompt = prompt_of(21, seed=1)
    longer = [*prompt, *ids(alone(prompt, 40)), 7]
    engine = SteppedEngine(Decoding(64, kv_format=kv_format))
    engine.add(0, work(prompt, 40))
    engine.run()
    engine.add(1, work(longer, 5))
    engine.run()
    assert engine.tokens[1] == alone(longer, 5)
    assert engine.outcomes[1].stats.num_reused == (60 if kv_format is F16 else 48)


def test_no_step_is_run_behind_a_token_that_ends_the_sequence() -> None:
    prompt, num_said = prompt_of(10, seed=3), SINGLE + 5
    said = ids(alone(prompt, num_said + 1))
    engine = SteppedEngine(Decoding(64))
    engine.add(0, work(prompt, 40, stop_token_ids=frozenset({300, said[num_said]})))
    engine.run()
    assert ids(engine.tokens[0]) == said[:num_said]
    assert engine.outcomes[0].finish_reason == "stop"
    assert len(engine.batches) == 1 + num_said
    assert engine.scheduler.stats().total_tokens_beyond == 0


@FORMATS
@pytest.mark.parametrize("num_shown", range(SINGLE - 1, SINGLE + 4))
def test_what_comes_behind_a_stop_string_is_not_shown_not_counted_as_computed_and_not_reused(
    num_shown: int, kv_format: KvFormat
) -> None:
    prompt = prompt_of(20, seed=9)
    said = text(alone(prompt, 20))
    engine = SteppedEngine(Decoding(64, kv_format=kv_format))
    engine.add(0, work(prompt, 20, replace(GREEDY, stop=(said[num_shown],))))
    engine.run()
    assert (engine.texts[0], engine.outcomes[0].finish_reason) == (said[:num_shown], "stop")
    assert engine.outcomes[0].stats.num_generated == num_shown + 1
    assert engine.outcomes[0].stats.num_computed == 20 + num_shown
    stats = engine.scheduler.stats()
    num_beyond = (SINGLE - num_shown - 1) % 4
    assert stats.total_tokens_beyond == num_beyond
    assert stats.total_greedy_run_tokens == num_shown + 1 + num_beyond - SINGLE
    longer = [*prompt, *said.encode("latin-1")[:num_shown], 3, 4]
    engine.add(1, work(longer, 20))
    engine.run()
    assert engine.tokens[1] == alone(longer, 20)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.5, seed=1),
        SamplingParams(logprobs=0),
        SamplingParams(repetition_penalty=1.2),
        SamplingParams(logit_bias={7: 1.0}),
    ],
    ids=["drawn", "scored", "penalised", "biased"],
)
def test_where_each_token_needs_its_logits_nothing_goes_on_by_itself(params: SamplingParams) -> None:
    engine = SteppedEngine(Decoding(64))
    engine.add(0, work(prompt_of(10, seed=1), 20, params))
    engine.run()
    assert engine.tokens[0] == alone(prompt_of(10, seed=1), 20, params)
    assert set(run_lengths(engine)) == {1}


def test_nothing_goes_on_by_itself_beside_others_and_the_last_one_does() -> None:
    engine = SteppedEngine(Decoding(64))
    for number, num_new in enumerate((20, 30)):
        engine.add(number, work(prompt_of(10, seed=number), num_new))
    engine.run()
    assert engine.tokens == {
        number: alone(prompt_of(10, seed=number), num_new) for number, num_new in enumerate((20, 30))
    }
    assert all(not plan.goes_on for plan in engine.plans if len(plan.chunks) == 2)
    assert [plan.chunks[0].run_tokens for plan in engine.plans if len(plan.chunks) == 1] == [4, 4, 2]


def test_a_draft_comes_first_and_its_sequence_does_not_go_on_soon_after() -> None:
    def guess(token_ids: list[int], room: int) -> list[int]:
        return right(token_ids, 2) if len(token_ids) == 22 else []

    engine = SteppedEngine(Decoding(64), drafter=Scripted(guess))
    engine.add(0, work(prompt_of(10, seed=1), 30))
    engine.run()
    assert engine.tokens[0] == alone(prompt_of(10, seed=1), 30)
    drafted = next(number for number, plan in enumerate(engine.plans) if plan.chunks[0].draft is not None)
    assert run_lengths(engine)[drafted:] == [1] * (1 + SINGLE) + [4, 3]


def test_with_runs_of_one_or_an_executor_that_cannot_the_sampler_chooses_each_token() -> None:
    options = EngineOptions(step_tokens=64, max_num_seqs=8, run_tokens=1)
    for engine in (SteppedEngine(), SteppedEngine(Decoding(64), options)):
        engine.add(0, work(prompt_of(10, seed=1), 20))
        engine.run()
        assert set(run_lengths(engine)) == {1}


def test_a_run_takes_no_more_blocks_than_are_free() -> None:
    pool, index = BlockPool(2), PrefixIndex()
    asked = work(prompt_of(13, seed=1), 30)
    sequence = Sequence(0, asked, BlockTable(pool, index, "me"), 0, submitted_at=0.0)
    sequence.num_computed, sequence.num_unguessed = 12, 20
    assert sequence.table.grow(13)
    held = pool.take(1)
    assert held is not None
    assert GreedyRuns(8).prolonged(next_chunk(sequence, 1)).run_tokens == 4
    assert len(sequence.table.block_ids) == 1
    pool.give_back(held, index.worth)
    assert GreedyRuns(8).prolonged(next_chunk(sequence, 1)).run_tokens == 8


@pytest.mark.parametrize("num_said", range(SINGLE, SINGLE + 4))
def test_a_row_that_overflows_within_a_run_fails_the_sequence_behind_the_same_tokens(num_said: int) -> None:
    prompt = prompt_of(20, seed=8)
    engine = SteppedEngine(OverflowingFrom(20 + num_said - 1))
    engine.add(0, work(prompt, 40))
    engine.run()
    assert engine.outcomes[0].finish_reason == "failed"
    assert engine.outcomes[0].failure is not None
    assert engine.tokens[0] == alone(prompt, num_said)


class Held:
    """Holds the step at `place` until it is stopped, once."""

    def __init__(self, place: int) -> None:
        self.executor = Decoding(64, before_run=self)
        self.batches: list[Batch] = []
        self._place = place
        self._reached = threading.Event()

    def __call__(self, batch: Batch) -> None:
        self.batches.append(batch)
        if int(batch.first_places[0]) == self._place and not self._reached.is_set():
            self._reached.set()
            assert self.executor.stop_flag.wait(PATIENCE_S), "the run was to be stopped"

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, PATIENCE_S)


PROMPT = prompt_of(20, seed=1)
WITHIN = 20 + SINGLE + 1  # the place of a run's third token


@pytest.mark.anyio
@pytest.mark.parametrize("priority", ["interactive", "batch", "idle"])
async def test_whoever_comes_stops_a_run_and_is_in_the_very_next_step(priority: Priority) -> None:
    held, other = Held(WITHIN), prompt_of(9, seed=2)
    async with running_engine(held.executor) as engine:
        first = engine.submit([replace(work(PROMPT, 30), priority="idle")])
        await held.reached()
        num_batches = len(held.batches)
        second = engine.submit([replace(work(other, 1), priority=priority)])
        assert await tokens_of(second) == alone(other, 1)
        assert other[0] in held.batches[num_batches].token_ids.tolist()
        assert await tokens_of(first) == alone(PROMPT, 30)
        stats = first.outcomes[0].stats
    assert stats.num_computed == 20 + 30 - 1, "nothing that a stopped run had was computed again"


@pytest.mark.anyio
async def test_who_is_cancelled_within_a_run_keeps_what_it_has_and_is_in_no_later_step() -> None:
    held = Held(WITHIN)
    async with running_engine(held.executor) as engine:
        generation = engine.submit([work(PROMPT, 30)])
        await held.reached()
        generation.cancel()
        assert await tokens_of(generation) == alone(PROMPT, SINGLE + 2)
        assert generation.outcomes[0].finish_reason == "cancelled"
        assert int(held.batches[-1].first_places[0]) == WITHIN
        assert engine.stats().num_held_blocks == 0


@pytest.mark.anyio
async def test_an_engine_that_is_closed_stops_a_run() -> None:
    held = Held(WITHIN)
    async with running_engine(held.executor) as engine:
        generation = engine.submit([work(PROMPT, 30)])
        await held.reached()
        await asyncio.to_thread(engine.close, 0.0)
        assert await tokens_of(generation) == alone(PROMPT, SINGLE + 2)
        assert generation.outcomes[0].finish_reason == "cancelled"


def test_a_run_of_no_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="run_tokens is 0, it must be at least 1"):
        EngineOptions(run_tokens=0)
