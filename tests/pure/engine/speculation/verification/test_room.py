"""Drafts get what rows, blocks and context leave, and displace nobody."""

from collections.abc import Callable

import pytest
from character_work import alone, prompt_of, work
from guessers import GUESSERS, Guesser, Scripted, right, wrong
from stepped_engine import SteppedEngine

from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.model.kv_format import INT8
from halfline.request import SamplingParams


@pytest.mark.parametrize(
    "executor",
    [
        pytest.param(lambda: HashExecutor(4), id="the arena's last slot"),
        pytest.param(lambda: HashExecutor(5, kv_format=INT8), id="all but one block of an int8 arena"),
        pytest.param(lambda: HashExecutor(64, max_context=64), id="the context's last place"),
    ],
)
@pytest.mark.parametrize("guess", GUESSERS)
def test_a_sequence_may_fill_all_there_is(guess: Guesser, executor: Callable[[], HashExecutor]) -> None:
    engine = SteppedEngine(executor(), drafter=Scripted(guess))
    prompt = prompt_of(30, seed=3)
    engine.add(0, work(prompt, 34))
    engine.run()
    assert engine.tokens[0] == alone(prompt, 34)


@pytest.mark.parametrize("guess", GUESSERS)
def test_where_blocks_run_out_drafts_take_only_what_is_free(guess: Guesser) -> None:
    asked = [(prompt_of(30, seed), 40, SamplingParams(temperature=0.5, seed=seed)) for seed in range(3)]
    engine = SteppedEngine(HashExecutor(6), drafter=Scripted(guess))
    for number, each in enumerate(asked):
        engine.add(number, work(*each))
    engine.run()
    assert next(iter(engine.outcomes)) == 0
    assert engine.tokens == {number: alone(*each) for number, each in enumerate(asked)}


def test_a_draft_does_not_preempt_anybody() -> None:
    engine = SteppedEngine(HashExecutor(6), drafter=Scripted(lambda token_ids, room: [0] * 60))
    for number in range(2):
        engine.add(number, work(prompt_of(40, seed=number), 8))
    engine.run()
    assert engine.scheduler.stats().total_preemptions == 0
    assert any(chunk.draft_ids for plan in engine.plans for chunk in plan.chunks)


def test_a_draft_that_finds_no_free_block_still_fills_the_places_there_are() -> None:
    engine = SteppedEngine(HashExecutor(3), drafter=Scripted(right))
    engine.add(0, work(prompt_of(20, seed=1), 4))
    engine.add(1, work(prompt_of(5, seed=2), 30))
    engine.step()
    drafted = {chunk.sequence.id: len(chunk.draft_ids) for chunk in engine.plans[0].chunks}
    assert drafted == {0: 3, 1: 16 - 5}, "two blocks and one: the second sequence's last eleven places"
    engine.run()
    assert engine.tokens[1] == alone(prompt_of(5, seed=2), 30)


def test_drafts_get_what_prompts_leave_of_the_budget() -> None:
    options = EngineOptions(step_tokens=32, max_num_seqs=8)
    engine = SteppedEngine(HashExecutor(200), options, Scripted(right))
    engine.add(0, work(prompt_of(5, seed=1), 60))
    engine.step()
    engine.add(1, work(prompt_of(100, seed=2), 3))
    for num_prompt_tokens in (31, 31, 31):
        chunks = {chunk.sequence.id: chunk for chunk in engine.step().chunks}
        assert (chunks[0].num_rows, chunks[1].num_rows) == (1, num_prompt_tokens)
    engine.run()
    assert max(plan.num_rows for plan in engine.plans) == 32
    assert engine.tokens[0] == alone(prompt_of(5, seed=1), 60)


def test_a_prompt_that_is_cut_short_of_the_budget_carries_no_draft() -> None:
    options = EngineOptions(step_tokens=256, max_num_seqs=8)
    engine = SteppedEngine(HashExecutor(200), options, Scripted(wrong))
    prompts = [prompt_of(150, seed=number) for number in range(3)]
    for number, prompt in enumerate(prompts):
        engine.add(number, work(prompt, 10))
    engine.run()
    cut = [chunk for plan in engine.plans for chunk in plan.chunks if not chunk.samples]
    assert any(
        chunk.num_tokens < 150 and plan.num_rows < 256 for plan in engine.plans for chunk in plan.chunks
    )
    assert cut and not any(chunk.draft_ids for chunk in cut)
    assert engine.tokens == {number: alone(prompt, 10) for number, prompt in enumerate(prompts)}
