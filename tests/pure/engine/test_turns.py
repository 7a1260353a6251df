"""Whose turn it is by class and deadline, who loses blocks, how long a step may take; and that no token changes."""

from dataclasses import replace

import numpy as np
import pytest
from character_work import prompt_of
from hypothesis import given, settings
from hypothesis import strategies as st
from turn_simulation import FIXED_MS, PRIORITIES, Simulation, alone, planned, work

from halfline.engine.options import EngineOptions
from halfline.model.executor import BLOCK_TOKENS


def test_interactive_goes_before_batch_and_batch_before_idle() -> None:
    engine = Simulation()
    for number, priority in enumerate(reversed(PRIORITIES)):
        engine.add(work(prompt_of(300, seed=number), priority=priority))
    engine.run()
    assert list(engine.outcomes) == [2, 1, 0]


def test_idle_work_pauses_also_in_decode_as_long_as_there_is_other_work() -> None:
    engine = Simulation()
    idle = engine.add(work(prompt_of(10, seed=0), 40, priority="idle"))
    engine.step()
    assert engine.step().yields
    typed = engine.add(work(prompt_of(200, seed=1), 5))
    while typed not in engine.outcomes:
        plan = engine.step()
        assert planned(plan) == [typed]
        assert not plan.yields
    engine.run()
    assert engine.tokens[idle] == alone(prompt_of(10, seed=0), 40)


def test_batch_work_goes_on_beside_interactive_work() -> None:
    engine = Simulation()
    batch = engine.add(work(prompt_of(10, seed=0), 40, priority="batch"))
    engine.step()
    typed = engine.add(work(prompt_of(20, seed=1), 5))
    plan = engine.step()
    assert planned(plan) == [typed, batch]
    assert not plan.yields


def test_what_waited_long_enough_is_lifted_and_no_longer_pauses_or_yields() -> None:
    engine = Simulation(options=EngineOptions(step_tokens=128, max_num_seqs=64, patience_s=2.0))
    idle = engine.add(work(prompt_of(10, seed=0), 400, priority="idle"))
    engine.add(work(prompt_of(10, seed=1), 400))
    engine.step()
    assert idle not in engine.first_planned
    engine.now += 2.0
    assert idle in planned(engine.step()), "batch by now"
    engine.end(1)
    assert not engine.step().yields


def test_a_keystroke_does_not_wait_for_batch_work_that_begins_like_it() -> None:
    engine = Simulation(options=EngineOptions(step_tokens=32, max_num_seqs=8, patience_s=100.0))
    batch = engine.add(work(prompt_of(200, seed=1), priority="batch"))
    assert planned(engine.step()) == [batch]
    keystroke = engine.add(work(prompt_of(200, seed=1)))
    assert keystroke in planned(engine.step())


def test_the_earlier_deadline_goes_first_and_any_before_none() -> None:
    engine = Simulation(options=EngineOptions(step_tokens=32, max_num_seqs=1))
    engine.add(work(prompt_of(32, seed=9)))
    engine.step()
    none = engine.add(work(prompt_of(32, seed=0)))
    late = engine.add(work(prompt_of(32, seed=1), deadline_ms=900))
    soon = engine.add(work(prompt_of(32, seed=2), deadline_ms=300))
    engine.run()
    assert [each for each in engine.outcomes if each != 0] == [soon, late, none]


def test_a_deadline_does_not_pass_a_higher_class() -> None:
    engine = Simulation()
    batch = engine.add(work(prompt_of(400, seed=1), priority="batch", deadline_ms=1))
    typed = engine.add(work(prompt_of(400, seed=0)))
    engine.run()
    assert list(engine.outcomes) == [typed, batch]


def test_blocks_are_taken_from_idle_before_batch_before_interactive_and_from_the_latest_first() -> None:
    engine = Simulation(num_blocks=13, options=EngineOptions(step_tokens=128, max_num_seqs=16))
    order: list[int] = []
    preempt = engine.scheduler._preempt
    engine.scheduler._preempt = lambda sequence: (order.append(sequence.id), preempt(sequence))[1]  # type: ignore[method-assign, assignment]
    idle = engine.add(work(prompt_of(17, seed=0), 30, priority="idle"))
    engine.step()
    batch = [engine.add(work(prompt_of(17, seed=1 + n), 30, priority="batch")) for n in range(2)]
    engine.step()
    typed = [engine.add(work(prompt_of(30, seed=10 + n), 20)) for n in range(2)]
    engine.step()
    big = engine.add(work(prompt_of(120, seed=20), 2))
    engine.step()
    assert order == [idle, batch[1], batch[0]]
    assert engine.scheduler.stats().num_running == 3
    engine.run()
    for number, asked in engine.works.items():
        assert engine.tokens[number] == alone(list(asked.prompt_ids), asked.max_new_tokens)
    assert set(order[3:]) <= {*typed, big, *batch, idle}


def test_nothing_is_preempted_for_one_that_would_not_fit_even_so() -> None:
    engine = Simulation(num_blocks=10, options=EngineOptions(step_tokens=128, max_num_seqs=16))
    engine.add(work(prompt_of(70, seed=0), 8))
    engine.add(work(prompt_of(20, seed=1), 8, priority="batch"))
    engine.step()
    engine.add(work(prompt_of(120, seed=2), 1))
    for _ in range(5):
        engine.step()
    assert engine.scheduler.stats().total_preemptions == 0


def test_a_small_request_does_not_wait_behind_one_that_does_not_fit() -> None:
    engine = Simulation(num_blocks=12)
    running = engine.add(work(prompt_of(100, seed=0), 40))
    engine.step()
    big = engine.add(work(prompt_of(150, seed=1)))
    small = engine.add(work(prompt_of(16, seed=2), 2))
    engine.run()
    assert list(engine.outcomes) == [small, running, big]


def test_while_somebody_waits_a_step_takes_no_longer_than_it_may() -> None:
    engine = Simulation(
        num_blocks=2000, options=EngineOptions(step_tokens=256, max_num_seqs=64, step_ms=30.0)
    )
    engine.add(work(prompt_of(2000, seed=0)))
    for _ in range(8):
        engine.step()
    assert 100.0 < engine.step_ms[-1] <= 120.0, "nobody waits beside it"
    for number in range(1, 6):
        engine.add(work(prompt_of(400, seed=number), 10, user=str(number)))
    engine.step_ms.clear()
    for _ in range(40):
        plan = engine.step()
        for chunk in plan.chunks:
            whole = chunk.stop % BLOCK_TOKENS == 0 or chunk.samples
            assert whole, "a prompt is cut between blocks"
    # Before anything was measured 64 rows are tried; then it is learned within a few steps.
    assert max(engine.step_ms[6:]) <= 30.0
    assert np.mean(engine.step_ms[6:]) > 15.0, "and it uses the time there is"


def test_batch_work_is_always_cut_short_and_idle_work_never() -> None:
    engine = Simulation(num_blocks=2000, options=EngineOptions(step_tokens=256, max_num_seqs=64))
    engine.add(work(prompt_of(900, seed=0), priority="batch"))
    for _ in range(10):
        engine.step()
    assert engine.step_ms[-1] <= 30.0
    engine.end(0)
    engine.add(work(prompt_of(900, seed=1), priority="idle"))
    engine.step()
    assert engine.step_ms[-1] == FIXED_MS + 256


def test_scoring_prompts_leaves_what_is_typed_in_the_cache() -> None:
    engine = Simulation(num_blocks=40)
    typed = prompt_of(160, seed=0)
    engine.add(work(typed))
    engine.run()
    for number in range(1, 30):
        engine.add(work(prompt_of(160, seed=number), 0, priority="batch", prompt_logprobs=0))
        if number % 3 == 0:
            engine.run()
    engine.run()
    again = engine.add(work([*typed, 1, 2, 3]))
    engine.run()
    assert engine.outcomes[again].stats.num_reused == 160


def test_prompts_that_are_scored_side_by_side_leave_what_is_typed_in_the_cache() -> None:
    engine = Simulation(16, EngineOptions(step_tokens=256, max_num_seqs=64, step_ms=1e6))
    typed = prompt_of(160, seed=0)
    engine.add(work(typed))
    engine.run()
    # One step has rows for all of them, and the arena has no room for all beside what is typed.
    for number in range(1, 9):
        engine.add(work(prompt_of(20, seed=number), 0, priority="batch", prompt_logprobs=0))
    engine.run()
    again = engine.add(work([*typed, 1, 2, 3]))
    engine.run()
    assert engine.outcomes[again].stats.num_reused == 160


def test_scoring_answers_leaves_the_prompt_they_continue_in_the_cache() -> None:
    engine = Simulation(num_blocks=20)
    typed, older = prompt_of(130, seed=0), prompt_of(120, seed=1)
    for prompt in (older, typed):
        engine.add(work(prompt))
        engine.run()
    for number in range(2, 5):
        scored = work([*typed, *prompt_of(20, seed=number)], 0, prompt_logprobs=0)
        engine.add(replace(scored, scores_from=len(typed)))
        engine.run()
    engine.add(work(prompt_of(90, seed=9)))
    engine.run()
    again = engine.add(work([*typed, 1, 2, 3]))
    engine.run()
    assert engine.outcomes[again].stats.num_reused >= 128, "what was typed before it went first"


# What happens between two steps.
adds = st.tuples(
    st.just("add"),
    st.lists(st.integers(0, 1), max_size=3),
    st.integers(1, 20),
    st.integers(0, 25),
    st.sampled_from(PRIORITIES),
    st.sampled_from(["key/ann", "key/bob", "other/"]),
    st.none() | st.integers(1, 500),
)
ends = st.tuples(st.just("end"), st.integers(0, 20))
waits = st.tuples(st.just("wait"), st.floats(0.0, 2.0))
stops = st.tuples(st.just("stop"))


schedules = given(
    st.lists(st.lists(st.one_of(adds, adds, ends, waits, stops), max_size=4), min_size=1, max_size=12),
    st.integers(6, 14),
    st.sampled_from([4, 16, 40]),
)


@settings(max_examples=40, deadline=None)
@schedules
def test_any_schedule_of_classes_keys_and_deadlines_changes_no_token(
    between_steps: list[list[tuple]],  # type: ignore[type-arg]
    num_blocks: int,
    step_tokens: int,
) -> None:
    follow(between_steps, num_blocks, step_tokens)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(20))
@settings(max_examples=1_000, deadline=None)
@schedules
def test_twenty_thousand_schedules_change_no_token(
    part: int,
    between_steps: list[list[tuple]],  # type: ignore[type-arg]
    num_blocks: int,
    step_tokens: int,
) -> None:
    follow(between_steps, num_blocks, step_tokens)


def follow(
    between_steps: list[list[tuple]],  # type: ignore[type-arg]
    num_blocks: int,
    step_tokens: int,
) -> None:
    """Whoever is added, superseded, preempted or stopped in between: the books hold, and the tokens are the same."""
    options = EngineOptions(step_tokens=step_tokens, max_num_seqs=4, patience_s=0.7, step_ms=20.0)
    engine = Simulation(num_blocks, options)
    for actions in between_steps:
        for action in actions:
            match action[0]:
                case "add":
                    _, blocks, num_own, max_new_tokens, priority, whose, deadline_ms = action
                    prompt = [token for block in blocks for token in [block] * 16] + [
                        len(engine.works)
                    ] * num_own
                    key, user = whose.split("/")
                    engine.add(
                        work(
                            prompt,
                            max_new_tokens,
                            priority=priority,
                            key=key,
                            user=user,
                            deadline_ms=deadline_ms,
                            prompt_logprobs=0 if max_new_tokens % 5 == 0 else None,
                        )
                    )
                case "end":
                    engine.end(action[1])
                case "wait":
                    engine.now += action[1]
                case "stop":
                    engine.abandon()
        engine.step()
    engine.run()
    assert set(engine.outcomes) == set(engine.works)
    for number, asked in engine.works.items():
        expected = alone(list(asked.prompt_ids), asked.max_new_tokens)
        if engine.outcomes[number].finish_reason == "superseded":
            assert engine.tokens[number] == expected[: len(engine.tokens[number])]
        else:
            assert engine.tokens[number] == expected
