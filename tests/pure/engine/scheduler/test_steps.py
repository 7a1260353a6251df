"""How prompts are cut into steps, and who gets how much of each."""

import pytest
from character_work import alone, prompt_of, work
from stepped_engine import SteppedEngine, sizes

from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions


def test_a_long_prompt_runs_in_chunks_and_only_the_last_gives_a_token() -> None:
    engine = SteppedEngine(options=EngineOptions(step_tokens=32, max_num_seqs=8))
    prompt = prompt_of(80, seed=1)
    engine.add(0, work(prompt, 3))
    engine.run()
    assert [sizes(plan)[0] for plan in engine.plans] == [32, 32, 16, 1, 1]
    assert [len(batch.logit_rows) for batch in engine.batches] == [0, 0, 1, 1, 1]
    assert engine.tokens[0] == alone(prompt, 3)


@pytest.mark.parametrize("step_tokens", [1, 5, 16, 33, 200])
def test_how_a_prompt_is_cut_changes_nothing(step_tokens: int) -> None:
    engine = SteppedEngine(options=EngineOptions(step_tokens=step_tokens, max_num_seqs=1))
    prompt = prompt_of(90, seed=2)
    engine.add(0, work(prompt, 20))
    engine.run()
    assert engine.tokens[0] == alone(prompt, 20)


def test_no_new_tokens_computes_the_prompt_and_nothing_more() -> None:
    engine = SteppedEngine()
    engine.add(0, work(prompt_of(70, seed=9), 0))
    engine.run()
    assert engine.outcomes[0].finish_reason == "length"
    assert engine.outcomes[0].stats.num_computed == 70
    assert all(len(batch.logit_rows) == 0 for batch in engine.batches)


def test_sequences_that_decode_get_their_token_in_every_step_beside_a_long_prompt() -> None:
    engine = SteppedEngine(options=EngineOptions(step_tokens=32, max_num_seqs=8))
    engine.add(0, work(prompt_of(5, seed=1), 50))
    engine.add(1, work(prompt_of(5, seed=2), 50))
    engine.step()
    engine.add(2, work(prompt_of(200, seed=3), 2))
    for _ in range(5):
        assert sizes(engine.step()) == {0: 1, 1: 1, 2: 30}


def test_a_short_prompt_overtakes_a_long_one_but_not_for_ever() -> None:
    engine = SteppedEngine(HashExecutor(1000), EngineOptions(step_tokens=32, max_num_seqs=32))
    engine.add(0, work(prompt_of(320, seed=1), 1))
    engine.step()
    for number in range(1, 40):
        engine.add(number, work(prompt_of(32, seed=number), 1))
        engine.step()
    first = list(engine.outcomes)
    assert first.index(1) < first.index(0), "a keystroke need not wait for a cold prompt"
    assert first.index(0) <= 12, "ten steps' worth of prompt lets about ten steps' worth of others pass"


def test_a_step_never_exceeds_its_budget_nor_the_number_of_sequences() -> None:
    engine = SteppedEngine(HashExecutor(200), EngineOptions(step_tokens=24, max_num_seqs=6))
    prompts = [prompt_of(7 + 5 * number, seed=number) for number in range(20)]
    for number, prompt in enumerate(prompts):
        engine.add(number, work(prompt, 5))
    engine.run()
    for plan in engine.plans:
        assert sum(sizes(plan).values()) <= 24
        assert len(plan.chunks) <= 6
    assert engine.tokens == {number: alone(prompt, 5) for number, prompt in enumerate(prompts)}


def test_a_stopped_step_counts_for_nothing_and_is_run_again() -> None:
    engine = SteppedEngine(options=EngineOptions(step_tokens=32, max_num_seqs=8))
    prompt = prompt_of(40, seed=0)
    engine.add(0, work(prompt))
    engine.step()
    engine.stop_a_step()
    engine.run()
    assert engine.tokens[0] == alone(prompt, 4)
