"""Whatever is admitted, cut, guessed, preempted or cancelled, a sequence gets the tokens that it would get alone."""

from typing import Any, Literal

from character_work import alone, ids, work
from guessers import Scripted
from hypothesis import given, settings
from hypothesis import strategies as st
from stepped_engine import SteppedEngine

from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.request import SamplingParams
from halfline.sampling.sampler import Scored

# What happens between two steps: a prompt made of a few shared blocks and an own tail arrives, or one is cancelled.
arrivals = st.tuples(
    st.just("add"),
    st.lists(st.integers(0, 1), max_size=3),
    st.integers(1, 20),
    st.integers(0, 25),
    st.booleans(),
)
cancels = st.tuples(st.just("cancel"), st.integers(0, 20))
# How a guess is made at each place: so many right tokens, then so many wrong ones.
scripts = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4)), min_size=1, max_size=7)


@settings(max_examples=70, deadline=None)
@given(
    st.lists(st.lists(st.one_of(arrivals, cancels), max_size=3), min_size=1, max_size=12),
    st.integers(6, 14),
    st.sampled_from([4, 16, 40]),
    st.sampled_from(["on", "off"]),
    st.one_of(st.just([(0, 0)]), scripts),
)
def test_any_schedule_with_any_drafts_leaks_nothing_and_changes_no_token(
    between_steps: list[list[tuple[Any, ...]]],
    num_blocks: int,
    step_tokens: int,
    prefix_caching: Literal["on", "off"],
    script: list[tuple[int, int]],
) -> None:
    prompts: list[list[int]] = []
    expected: list[list[Scored]] = []
    cancelled = set()

    def guess(token_ids: list[int], room: int) -> list[int]:
        num_right, num_wrong = script[len(token_ids) % len(script)]
        for prompt, coming in zip(prompts, expected, strict=True):
            if token_ids[: len(prompt)] == prompt:
                return ids(coming)[len(token_ids) - len(prompt) :][:num_right] + [3] * num_wrong
        raise AssertionError("asked about a sequence nobody added")

    drafter = Scripted(guess)
    options = EngineOptions(step_tokens=step_tokens, max_num_seqs=4, prefix_caching=prefix_caching)
    engine = SteppedEngine(HashExecutor(num_blocks), options, drafter)
    for actions in between_steps:
        for action in actions:
            if action[0] == "add":
                _, blocks, num_own, max_new_tokens, draws = action
                number = len(prompts)
                prompt = [token for block in blocks for token in [block] * 16] + [number + 2] * num_own
                params = SamplingParams(temperature=1.0 if draws else 0.0, seed=number)
                prompts.append(prompt)
                expected.append(alone(prompt, max_new_tokens, params))
                engine.add(number, work(prompt, max_new_tokens, params))
            else:
                engine.cancel(action[1])
                cancelled.add(action[1])
        engine.step()
    engine.run()
    assert set(engine.outcomes) == set(range(len(prompts))) == set(drafter.ended_ids)
    for number, told in enumerate(expected):
        if engine.outcomes[number].finish_reason == "cancelled":
            assert number in cancelled
            assert engine.tokens[number] == told[: len(engine.tokens[number])]
        else:
            assert engine.tokens[number] == told
