"""What is known of a prompt is taken over and not computed again; what follows is the same."""

import pytest
from character_work import VOCAB, alone, ids, prompt_of, work
from stepped_engine import SteppedEngine

from halfline.engine.hash_executor import HashExecutor, hash_logits
from halfline.engine.options import EngineOptions
from halfline.errors import InvariantBroken
from halfline.model.kv_format import INT8
from halfline.sampling.sampler import score


def test_of_a_prompt_seen_before_only_the_last_token_is_computed() -> None:
    engine = SteppedEngine()
    prompt = prompt_of(64, seed=5)
    for number in range(2):
        engine.add(number, work(prompt, 2))
        engine.run()
    stats = engine.outcomes[1].stats
    assert (stats.num_reused, stats.num_computed) == (63, 1 + 1)
    assert engine.tokens[1] == engine.tokens[0] == alone(prompt, 2)


def test_without_prefix_caching_all_is_computed_again_and_nothing_else_changes() -> None:
    engine = SteppedEngine(options=EngineOptions(step_tokens=32, max_num_seqs=8, prefix_caching="off"))
    prompt = prompt_of(64, seed=5)
    for number in range(2):
        engine.add(number, work(prompt, 2))
        engine.run()
    stats = engine.outcomes[1].stats
    assert (stats.num_reused, stats.num_computed) == (0, 64 + 1)
    assert engine.tokens[1] == engine.tokens[0] == alone(prompt, 2)


def test_generated_tokens_are_reused_as_the_next_prompt() -> None:
    engine = SteppedEngine()
    prompt = prompt_of(20, seed=6)
    engine.add(0, work(prompt, 30))
    engine.run()
    engine.add(1, work(prompt + ids(alone(prompt, 30)), 5))
    engine.run()
    assert engine.outcomes[1].stats.num_reused == 49


@pytest.mark.parametrize("max_new_tokens", [0, 3])
def test_prompt_scores_are_the_same_warm_and_cold_and_all_rows_are_computed(max_new_tokens: int) -> None:
    prompt = prompt_of(70, seed=9)
    expected = [score(hash_logits(prompt[:place], VOCAB), prompt[place], 2) for place in range(1, 70)]
    engine = SteppedEngine()
    engine.add(0, work(prompt, 5))
    engine.run()
    engine.add(1, work(prompt, max_new_tokens, prompt_logprobs=2))
    engine.run()
    assert engine.prompt_scores[1] == expected
    assert engine.outcomes[1].stats.num_reused == 0
    assert engine.outcomes[1].stats.num_computed == 70 + max(0, max_new_tokens - 1)
    assert engine.tokens[1] == alone(prompt, max_new_tokens)


def test_tenants_reuse_nothing_of_each_other() -> None:
    engine = SteppedEngine()
    prompt = prompt_of(64, seed=5)
    engine.add(0, work(prompt, 1, namespace="me"))
    engine.run()
    engine.add(1, work(prompt, 1, namespace="you"))
    engine.run()
    assert engine.outcomes[1].stats.num_reused == 0


def test_equal_prompts_that_arrive_together_are_computed_once() -> None:
    engine = SteppedEngine(options=EngineOptions(step_tokens=200, max_num_seqs=8))
    prompt = prompt_of(100, seed=4)
    for number in range(4):
        engine.add(number, work(prompt, 3))
    engine.run()
    assert engine.scheduler.stats().total_reused_tokens == 3 * 99
    assert [engine.outcomes[number].stats.num_reused for number in range(4)] == [0, 99, 99, 99]
    assert all(engine.tokens[number] == alone(prompt, 3) for number in range(4))


def test_a_sibling_goes_on_when_the_one_it_waited_for_is_cancelled() -> None:
    engine = SteppedEngine(options=EngineOptions(step_tokens=32, max_num_seqs=8))
    prompt = prompt_of(100, seed=4)
    engine.add(0, work(prompt, 3))
    engine.add(1, work(prompt, 3))
    engine.step()
    assert engine.scheduler.stats().num_waiting == 1
    engine.cancel(0)
    engine.run()
    assert engine.tokens[1] == alone(prompt, 3)
    assert engine.outcomes[1].stats.num_reused == 32, "what the other had finished is used"


def test_a_prompt_that_parts_within_a_block_computes_from_the_first_token_that_differs() -> None:
    engine, parting = after_one_it_parts_from()
    engine.add(1, work(parting, 5))
    engine.run()
    assert engine.outcomes[1].stats.num_reused == 37
    assert engine.scheduler.stats().total_copied_blocks == 1
    assert engine.tokens[1] == alone(parting, 5)


def test_a_copy_of_a_stopped_step_is_made_again() -> None:
    engine, parting = after_one_it_parts_from()
    engine.add(1, work(parting, 3))
    engine.stop_a_step()
    engine.stop_a_step()
    engine.run()
    assert engine.tokens[1] == alone(parting, 3)
    assert engine.scheduler.stats().total_copied_blocks == 1


def test_one_cancelled_before_its_copy_was_made_leaves_nothing_held_and_nothing_wrong() -> None:
    engine, parting = after_one_it_parts_from()
    engine.add(1, work(parting, 3))
    engine.scheduler.plan(0.0)
    engine.scheduler.abandon()
    engine.cancel(1)
    assert engine.pool.num_held == 0
    engine.add(2, work(parting, 3))
    engine.run()
    assert engine.tokens[2] == alone(parting, 3)


def after_one_it_parts_from() -> tuple[SteppedEngine, list[int]]:
    """An engine that has read a prompt of 40 tokens, and one that differs from it in place 37, within a block."""
    engine, prompt = SteppedEngine(), prompt_of(40, seed=5)
    engine.add(0, work(prompt, 1))
    engine.run()
    parting = [*prompt[:37], 1, 2, 3, 4, 5]
    assert parting[37] != prompt[37]
    return engine, parting


def test_a_shared_source_may_grow_on_while_it_is_copied() -> None:
    engine = SteppedEngine()
    prompt = prompt_of(20, seed=5)
    engine.add(0, work(prompt, 30))
    engine.step()
    engine.add(1, work([*prompt, 1, 2], 3))
    engine.run()
    assert engine.outcomes[1].stats.num_reused == 20
    assert engine.tokens == {0: alone(prompt, 30), 1: alone([*prompt, 1, 2], 3)}


def test_in_int8_whole_blocks_are_found_again_and_open_ones_computed() -> None:
    engine = SteppedEngine(HashExecutor(64, kv_format=INT8))
    prompt = prompt_of(40, seed=3)
    for number in range(2):
        engine.add(number, work(prompt, 9))
        engine.run()
        assert engine.tokens[number] == alone(prompt, 9)
    assert engine.outcomes[1].stats.num_reused == 32


def test_the_books_are_right_when_one_that_took_over_full_int8_blocks_has_had_no_rows_yet() -> None:
    engine = SteppedEngine(HashExecutor(8, kv_format=INT8))
    engine.add(0, work(prompt_of(17, seed=5), 1))
    engine.run()
    engine.add(1, work(prompt_of(17, seed=5), 1))
    scheduler = engine.scheduler
    (waiting,) = scheduler._waiting
    scheduler._admit(waiting, scheduler._match(waiting))
    assert (waiting.num_computed, waiting.table.block_ids) == (16, [0])
    scheduler.check()
    waiting.num_computed = 17
    with pytest.raises(InvariantBroken, match="past its blocks"):
        scheduler.check()
