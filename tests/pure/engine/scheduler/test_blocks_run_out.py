"""Where blocks are short somebody waits or is preempted, and nobody's tokens change."""

from dataclasses import replace

from character_work import alone, prompt_of, work
from stepped_engine import SteppedEngine

from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.request import SamplingParams


def test_the_latest_arrival_is_preempted_and_loses_nothing() -> None:
    engine = SteppedEngine(HashExecutor(6))
    prompts = [prompt_of(30, seed=number) for number in range(3)]
    for number, prompt in enumerate(prompts):
        engine.add(number, work(prompt, 40))
    engine.run()
    assert engine.scheduler.stats().total_preemptions > 0
    assert engine.scheduler.stats().total_reused_tokens == 0, "one that comes back is not counted again"
    assert list(engine.outcomes) == [0, 1, 2]
    assert engine.tokens == {number: alone(prompt, 40) for number, prompt in enumerate(prompts)}


def test_draws_are_the_same_alone_and_in_a_batch_that_preempts() -> None:
    params = SamplingParams(temperature=1.0, top_p=0.9, repetition_penalty=1.2, frequency_penalty=0.1)
    engine = SteppedEngine(HashExecutor(8))
    asked = [(prompt_of(10 + seed, seed), 30, replace(params, seed=seed)) for seed in range(6)]
    for number, each in enumerate(asked):
        engine.add(number, work(*each))
    engine.run()
    assert engine.scheduler.stats().total_preemptions > 0
    assert engine.tokens == {number: alone(*each) for number, each in enumerate(asked)}


def test_a_preempted_prompt_is_scored_once() -> None:
    engine = SteppedEngine(HashExecutor(7))
    for number in range(3):
        engine.add(number, work(prompt_of(30, seed=number), 40, prompt_logprobs=0))
    engine.run()
    assert engine.scheduler.stats().total_preemptions > 0
    assert all(len(engine.prompt_scores[number]) == 29 for number in range(3))


def test_a_prompt_can_preempt_a_later_sequence_that_was_already_planned() -> None:
    engine = SteppedEngine(HashExecutor(8), EngineOptions(step_tokens=8, max_num_seqs=8))
    long, short = prompt_of(112, seed=1), prompt_of(5, seed=2)
    engine.add(0, work(long, 10))
    engine.add(1, work(short, 20))
    engine.run()
    assert engine.scheduler.stats().total_preemptions == 1, "what it wrote took the long prompt's last block"
    assert engine.tokens == {0: alone(long, 10), 1: alone(short, 20)}


def test_a_prompt_is_not_admitted_on_blocks_that_a_running_prompt_still_needs() -> None:
    engine = SteppedEngine(HashExecutor(8), EngineOptions(step_tokens=32, max_num_seqs=8))
    engine.add(0, work(prompt_of(100, seed=1), 1))
    engine.step()
    engine.add(1, work(prompt_of(20, seed=2), 30))
    engine.run()
    assert engine.scheduler.stats().total_preemptions == 0
    assert engine.scheduler.stats().total_computed_tokens == 100 + 20 + 29


def test_one_that_does_not_fit_yet_is_not_overtaken_until_it_does() -> None:
    engine = SteppedEngine(HashExecutor(8), EngineOptions(step_tokens=32, max_num_seqs=8))
    engine.add(0, work(prompt_of(60, seed=1), 20))
    engine.step()
    engine.add(1, work(prompt_of(100, seed=2), 1))
    for number in range(2, 30):
        engine.add(number, work(prompt_of(16, seed=number), 8))
        engine.step()
    assert 1 in engine.outcomes
