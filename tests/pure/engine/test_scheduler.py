"""Whatever is admitted, cut, preempted or cancelled beside it, a sequence gets the tokens it would get alone."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.engine.hash_executor import HashExecutor, hash_logits
from halfline.engine.options import EngineOptions
from halfline.engine.plan import Plan
from halfline.engine.runner import Runner
from halfline.engine.scheduler import Scheduler
from halfline.engine.sequence import Outcome, Progress, Work
from halfline.errors import InvariantBroken
from halfline.kv.block_pool import BlockPool
from halfline.kv.prefix_index import PrefixIndex
from halfline.model.executor import Batch, Outputs
from halfline.model.kv_format import INT8
from halfline.model.reference import with_logits
from halfline.request import SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler, score

VOCAB = 258


class Characters:
    """Token n is character n."""

    def push(self, token_id: int) -> str:
        return chr(token_id)

    def finish(self) -> str:
        return ""


def work(
    prompt: list[int],
    max_new_tokens: int = 4,
    params: SamplingParams | None = None,
    stop_token_ids: frozenset[int] = frozenset(),
    namespace: str = "me",
    prompt_logprobs: int | None = None,
) -> Work:
    return Work(
        prompt_ids=tuple(prompt),
        max_new_tokens=max_new_tokens,
        sampler=Sampler(params or SamplingParams(), prompt),
        reader=Reader(Characters()),
        stop_token_ids=stop_token_ids,
        namespace=namespace,
        prompt_logprobs=prompt_logprobs,
    )


def alone(prompt: list[int], max_new_tokens: int, params: SamplingParams | None = None) -> list[int]:
    """The tokens that follow when nothing else exists."""
    tokens, sampler = list(prompt), Sampler(params or SamplingParams(), prompt)
    for _ in range(max_new_tokens):
        tokens.append(sampler.sample(hash_logits(tokens, VOCAB)).token_id)
    return tokens[len(prompt) :]


class Stepper:
    """Scheduler and runner without a thread; the books are checked after every call. Time is the step number."""

    def __init__(self, num_blocks: int = 64, options: EngineOptions | None = None) -> None:
        self.batches: list[Batch] = []
        self.pool = BlockPool(num_blocks)
        self.scheduler = Scheduler(
            self.pool,
            PrefixIndex(),
            options or EngineOptions(step_tokens=32, max_num_seqs=8),
        )
        self.executor = HashExecutor(num_blocks, before_run=self.batches.append)
        self.runner = Runner(self.executor)
        self.tokens: dict[int, list[int]] = defaultdict(list)
        self.scores: dict[int, list[object]] = defaultdict(list)
        self.outcomes: dict[int, Outcome] = {}
        self.plans: list[Plan] = []

    def add(self, sequence_id: int, asked: Work) -> None:
        self.scheduler.add(sequence_id, asked, self.now)
        self.scheduler.check()

    def step(self) -> Plan:
        plan = self.scheduler.plan(self.now)
        assert plan.chunks or self.scheduler.idle, "something always advances"
        if plan.chunks:
            self.plans.append(plan)
            results = self.runner.run(plan)
            assert results is not None
            self._note(self.scheduler.commit(plan, results, self.now))
        self.scheduler.check()
        return plan

    def cancel(self, sequence_id: int) -> None:
        self._note(self.scheduler.end([sequence_id], "cancelled", self.now))
        self.scheduler.check()

    def run(self) -> None:
        while not self.scheduler.idle:
            self.step()
        assert self.pool.num_held == 0

    @property
    def now(self) -> float:
        return float(self.scheduler.stats().total_steps)

    def _note(self, progress: list[Progress]) -> None:
        for each in progress:
            assert each.sequence_id not in self.outcomes, "nothing comes after the outcome"
            self.tokens[each.sequence_id] += [token.token_id for token in each.piece.tokens]
            self.scores[each.sequence_id] += each.prompt_scores
            if each.outcome is not None:
                self.outcomes[each.sequence_id] = each.outcome


def sizes(plan: Plan) -> dict[int, int]:
    return {chunk.sequence.id: chunk.num_tokens for chunk in plan.chunks}


def prompt_of(length: int, seed: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, 256, length)]


def test_a_long_prompt_runs_in_chunks_and_only_the_last_gives_a_token() -> None:
    engine = Stepper()
    prompt = prompt_of(80, seed=1)
    engine.add(0, work(prompt, 3))
    engine.run()
    assert [sizes(plan)[0] for plan in engine.plans] == [32, 32, 16, 1, 1]
    assert [len(batch.logit_rows) for batch in engine.batches] == [0, 0, 1, 1, 1]
    assert engine.tokens[0] == alone(prompt, 3)


@pytest.mark.parametrize("step_tokens", [1, 5, 16, 33, 200])
def test_how_a_prompt_is_cut_changes_nothing(step_tokens: int) -> None:
    engine = Stepper(options=EngineOptions(step_tokens=step_tokens, max_num_seqs=1))
    prompt = prompt_of(90, seed=2)
    engine.add(0, work(prompt, 20))
    engine.run()
    assert engine.tokens[0] == alone(prompt, 20)


def test_sequences_that_decode_get_their_token_in_every_step_beside_a_long_prompt() -> None:
    engine = Stepper()
    engine.add(0, work(prompt_of(5, seed=1), 50))
    engine.add(1, work(prompt_of(5, seed=2), 50))
    engine.step()
    engine.add(2, work(prompt_of(200, seed=3), 2))
    for _ in range(5):
        assert sizes(engine.step()) == {0: 1, 1: 1, 2: 30}


def test_a_short_prompt_overtakes_a_long_one_but_not_for_ever() -> None:
    engine = Stepper(num_blocks=1000, options=EngineOptions(step_tokens=32, max_num_seqs=32))
    engine.add(0, work(prompt_of(320, seed=1), 1))
    engine.step()
    for number in range(1, 40):
        engine.add(number, work(prompt_of(32, seed=number), 1))
        engine.step()
    first = list(engine.outcomes)
    assert first.index(1) < first.index(0), "a keystroke need not wait for a cold prompt"
    assert first.index(0) <= 12, "ten steps' worth of prompt lets about ten steps' worth of others pass"


def test_a_step_never_exceeds_its_budget_nor_the_number_of_sequences() -> None:
    options = EngineOptions(step_tokens=24, max_num_seqs=6)
    engine = Stepper(num_blocks=200, options=options)
    for number in range(20):
        engine.add(number, work(prompt_of(7 + 5 * number, seed=number), 5))
    engine.run()
    for plan in engine.plans:
        assert sum(sizes(plan).values()) <= 24
        assert len(plan.chunks) <= 6
    for number in range(20):
        assert engine.tokens[number] == alone(prompt_of(7 + 5 * number, seed=number), 5)


def test_equal_prompts_that_arrive_together_are_computed_once() -> None:
    engine = Stepper(options=EngineOptions(step_tokens=200, max_num_seqs=8))
    prompt = prompt_of(100, seed=4)
    for number in range(4):
        engine.add(number, work(prompt, 3))
    engine.run()
    assert engine.scheduler.stats().total_reused_tokens == 3 * 99
    assert [engine.outcomes[number].stats.num_reused for number in range(4)] == [0, 99, 99, 99]
    assert all(engine.tokens[number] == alone(prompt, 3) for number in range(4))


def test_a_sibling_goes_on_when_the_one_it_waited_for_is_cancelled() -> None:
    engine = Stepper()
    prompt = prompt_of(100, seed=4)
    engine.add(0, work(prompt, 3))
    engine.add(1, work(prompt, 3))
    engine.step()
    assert engine.scheduler.stats().num_waiting == 1
    engine.cancel(0)
    engine.run()
    assert engine.tokens[1] == alone(prompt, 3)
    assert engine.outcomes[1].stats.num_reused == 32, "what the other had finished is used"


def test_of_a_prompt_seen_before_only_the_last_token_is_computed() -> None:
    engine = Stepper()
    prompt = prompt_of(64, seed=5)
    engine.add(0, work(prompt, 2))
    engine.run()
    engine.add(1, work(prompt, 2))
    engine.run()
    stats = engine.outcomes[1].stats
    assert (stats.num_reused, stats.num_computed) == (63, 1 + 1)
    assert engine.tokens[1] == engine.tokens[0] == alone(prompt, 2)


def test_without_prefix_caching_all_is_computed_again_and_nothing_else_changes() -> None:
    engine = Stepper(options=EngineOptions(step_tokens=32, max_num_seqs=8, prefix_caching="off"))
    prompt = prompt_of(64, seed=5)
    for number in range(2):
        engine.add(number, work(prompt, 2))
        engine.run()
    stats = engine.outcomes[1].stats
    assert (stats.num_reused, stats.num_computed) == (0, 64 + 1)
    assert engine.tokens[1] == engine.tokens[0] == alone(prompt, 2)


def test_generated_tokens_are_reused_as_the_next_prompt() -> None:
    engine = Stepper()
    prompt = prompt_of(20, seed=6)
    engine.add(0, work(prompt, 30))
    engine.run()
    engine.add(1, work(prompt + alone(prompt, 30), 5))
    engine.run()
    assert engine.outcomes[1].stats.num_reused == 49


def test_a_prompt_that_parts_within_a_block_computes_from_the_first_token_that_differs() -> None:
    engine = Stepper()
    prompt = prompt_of(40, seed=5)
    engine.add(0, work(prompt, 1))
    engine.run()
    other = [*prompt[:37], 1, 2, 3, 4, 5]
    assert other[37] != prompt[37]
    engine.add(1, work(other, 5))
    engine.run()
    assert engine.outcomes[1].stats.num_reused == 37
    assert engine.scheduler.stats().total_copied_blocks == 1
    assert engine.tokens[1] == alone(other, 5)


def test_a_copy_of_a_stopped_step_is_made_again() -> None:
    engine = Stepper()
    prompt = prompt_of(40, seed=5)
    engine.add(0, work(prompt, 1))
    engine.run()
    engine.add(1, work([*prompt[:37], 1, 2], 3))
    engine.executor.stop_flag.set()
    for _ in range(2):
        assert engine.runner.run(engine.scheduler.plan(0.0)) is None
        engine.scheduler.abandon()
        engine.scheduler.check()
    engine.executor.stop_flag.clear()
    engine.run()
    assert engine.tokens[1] == alone([*prompt[:37], 1, 2], 3)
    assert engine.scheduler.stats().total_copied_blocks == 1


def test_one_cancelled_before_its_copy_was_made_leaves_nothing_held_and_nothing_wrong() -> None:
    engine = Stepper()
    prompt = prompt_of(40, seed=5)
    engine.add(0, work(prompt, 1))
    engine.run()
    engine.add(1, work([*prompt[:37], 1, 2], 3))
    engine.scheduler.plan(0.0)
    engine.scheduler.abandon()
    engine.cancel(1)
    assert engine.pool.num_held == 0
    engine.add(2, work([*prompt[:37], 1, 2], 3))
    engine.run()
    assert engine.tokens[2] == alone([*prompt[:37], 1, 2], 3)


def test_a_shared_source_may_grow_on_while_it_is_copied() -> None:
    engine = Stepper()
    prompt = prompt_of(20, seed=5)
    engine.add(0, work(prompt, 30))
    engine.step()
    engine.add(1, work([*prompt, 1, 2], 3))
    engine.run()
    assert engine.outcomes[1].stats.num_reused == 20
    assert engine.tokens == {0: alone(prompt, 30), 1: alone([*prompt, 1, 2], 3)}


def test_tenants_reuse_nothing_of_each_other() -> None:
    engine = Stepper()
    prompt = prompt_of(64, seed=5)
    engine.add(0, work(prompt, 1, namespace="me"))
    engine.run()
    engine.add(1, work(prompt, 1, namespace="you"))
    engine.run()
    assert engine.outcomes[1].stats.num_reused == 0


def test_when_blocks_run_out_the_latest_arrival_is_preempted_and_loses_nothing() -> None:
    engine = Stepper(num_blocks=6)
    prompts = [prompt_of(30, seed=number) for number in range(3)]
    for number, prompt in enumerate(prompts):
        engine.add(number, work(prompt, 40))
    engine.run()
    assert engine.scheduler.stats().total_preemptions > 0
    assert engine.scheduler.stats().total_reused_tokens == 0, "one that comes back is not counted again"
    assert list(engine.outcomes) == [0, 1, 2]
    for number, prompt in enumerate(prompts):
        assert engine.tokens[number] == alone(prompt, 40)


def test_a_prompt_is_not_admitted_on_blocks_that_a_running_prompt_still_needs() -> None:
    engine = Stepper(num_blocks=8)
    engine.add(0, work(prompt_of(100, seed=1), 1))
    engine.step()
    engine.add(1, work(prompt_of(20, seed=2), 30))
    engine.run()
    assert engine.scheduler.stats().total_preemptions == 0
    assert engine.scheduler.stats().total_computed_tokens == 100 + 20 + 29


def test_a_prompt_can_preempt_a_later_sequence_that_was_already_planned() -> None:
    engine = Stepper(num_blocks=8, options=EngineOptions(step_tokens=8, max_num_seqs=8))
    long, short = prompt_of(112, seed=1), prompt_of(5, seed=2)
    engine.add(0, work(long, 10))
    engine.add(1, work(short, 20))
    engine.run()
    assert engine.scheduler.stats().total_preemptions == 1, "what it wrote took the long prompt's last block"
    assert engine.tokens == {0: alone(long, 10), 1: alone(short, 20)}


def test_one_that_does_not_fit_yet_is_not_overtaken_until_it_does() -> None:
    engine = Stepper(num_blocks=8)
    engine.add(0, work(prompt_of(60, seed=1), 20))
    engine.step()
    engine.add(1, work(prompt_of(100, seed=2), 1))
    for number in range(2, 30):
        engine.add(number, work(prompt_of(16, seed=number), 8))
        engine.step()
    assert 1 in engine.outcomes


def test_a_sequence_may_fill_the_arena_to_the_last_slot() -> None:
    engine = Stepper(num_blocks=4)
    prompt = prompt_of(50, seed=3)
    engine.add(0, work(prompt, 14))
    engine.run()
    assert engine.tokens[0] == alone(prompt, 14)


def test_a_stop_token_ends_the_sequence_and_is_not_shown() -> None:
    prompt = prompt_of(20, seed=8)
    expected = alone(prompt, 10)
    engine = Stepper()
    engine.add(0, work(prompt, 10, stop_token_ids=frozenset({expected[4]})))
    engine.run()
    assert engine.tokens[0] == expected[:4]
    assert engine.outcomes[0].finish_reason == "stop"
    assert engine.outcomes[0].stats.num_generated == 5


def test_no_new_tokens_computes_the_prompt_and_nothing_more() -> None:
    engine = Stepper()
    engine.add(0, work(prompt_of(70, seed=9), 0))
    engine.run()
    assert engine.outcomes[0].finish_reason == "length"
    assert engine.outcomes[0].stats.num_computed == 70
    assert all(len(batch.logit_rows) == 0 for batch in engine.batches)


@pytest.mark.parametrize("max_new_tokens", [0, 3])
def test_prompt_scores_are_the_same_warm_and_cold_and_all_rows_are_computed(max_new_tokens: int) -> None:
    prompt = prompt_of(70, seed=9)
    expected = [score(hash_logits(prompt[:place], VOCAB), prompt[place], 2) for place in range(1, 70)]
    engine = Stepper()
    engine.add(0, work(prompt, 5))
    engine.run()
    engine.add(1, work(prompt, max_new_tokens, prompt_logprobs=2))
    engine.run()
    assert engine.scores[1] == expected
    assert engine.outcomes[1].stats.num_reused == 0
    assert engine.outcomes[1].stats.num_computed == 70 + max(0, max_new_tokens - 1)
    assert engine.tokens[1] == alone(prompt, max_new_tokens)


def test_a_preempted_prompt_is_scored_once() -> None:
    engine = Stepper(num_blocks=7)
    prompts = [prompt_of(30, seed=number) for number in range(3)]
    for number, prompt in enumerate(prompts):
        engine.add(number, work(prompt, 40, prompt_logprobs=0))
    engine.run()
    assert engine.scheduler.stats().total_preemptions > 0
    assert all(len(engine.scores[number]) == 29 for number in range(3))


def test_sampled_tokens_are_the_same_alone_and_in_a_batch() -> None:
    params = SamplingParams(temperature=1.0, top_p=0.9, seed=3, repetition_penalty=1.2, frequency_penalty=0.1)
    engine = Stepper(num_blocks=8)
    prompts = [prompt_of(10 + number, seed=number) for number in range(6)]
    for number, prompt in enumerate(prompts):
        engine.add(number, work(prompt, 30, replace(params, seed=number)))
    engine.run()
    assert engine.scheduler.stats().total_preemptions > 0, "a preemption must not draw twice"
    for number, prompt in enumerate(prompts):
        assert engine.tokens[number] == alone(prompt, 30, replace(params, seed=number))


def test_a_model_that_overflows_on_one_sequence_fails_that_one_alone() -> None:
    engine = Stepper()
    prompt = prompt_of(10, seed=1)

    class Overflowing(HashExecutor):
        def run(self, batch: Batch) -> Outputs | None:
            outputs = super().run(batch)
            assert outputs is not None
            outputs.logits[0, 7] = np.nan
            return with_logits(outputs, outputs.logits)

    engine.runner = Runner(Overflowing(64))
    engine.add(0, work(prompt, 3))
    engine.step()
    assert engine.outcomes[0].finish_reason == "failed"
    assert engine.outcomes[0].failure is not None
    assert engine.pool.num_held == 0


def cancel_in_queue(engine: Stepper) -> None:
    for number in range(1, 9):
        engine.add(number, work(prompt_of(6, seed=number), 1))
    engine.add(0, work(prompt_of(40, seed=0), 9))
    assert engine.scheduler.stats().num_running == 0


def cancel_in_prefill(engine: Stepper) -> None:
    engine.add(0, work(prompt_of(40, seed=0), 9))
    engine.step()


def cancel_in_decode(engine: Stepper) -> None:
    cancel_in_prefill(engine)
    engine.step()
    engine.step()


@pytest.mark.parametrize("reach", [cancel_in_queue, cancel_in_prefill, cancel_in_decode])
def test_cancelling_frees_the_blocks_at_once_wherever_the_sequence_is(
    reach: Callable[[Stepper], None],
) -> None:
    engine = Stepper()
    reach(engine)
    engine.cancel(0)
    assert engine.outcomes[0].finish_reason == "cancelled"
    assert engine.pool.num_held == 0
    engine.cancel(0)
    engine.run()


def test_the_books_are_right_when_one_that_took_over_full_int8_blocks_has_had_no_rows_yet() -> None:
    pool = BlockPool(8)
    scheduler = Scheduler(pool, PrefixIndex(), EngineOptions(step_tokens=32, max_num_seqs=8), kv_format=INT8)
    runner = Runner(HashExecutor(8, kv_format=INT8))
    scheduler.add(0, work(prompt_of(17, seed=5), 1), 0.0)
    plan = scheduler.plan(0.0)
    results = runner.run(plan)
    assert results is not None
    scheduler.commit(plan, results, 0.0)
    scheduler.add(1, work(prompt_of(17, seed=5), 1), 0.0)
    (waiting,) = scheduler._waiting
    scheduler._admit(waiting, scheduler._match(waiting))
    assert (waiting.num_computed, waiting.table.block_ids) == (16, [0])
    scheduler.check()
    waiting.num_computed = 17
    with pytest.raises(InvariantBroken, match="past its blocks"):
        scheduler.check()


def test_blocks_do_not_go_back_while_a_step_writes_to_them() -> None:
    engine = Stepper()
    engine.add(0, work(prompt_of(40, seed=0)))
    engine.scheduler.plan(0.0)
    with pytest.raises(InvariantBroken, match="a step is writing"):
        engine.scheduler.end([0], "cancelled", 0.0)


def test_a_stopped_step_counts_for_nothing_and_is_run_again() -> None:
    engine = Stepper()
    prompt = prompt_of(40, seed=0)
    engine.add(0, work(prompt))
    engine.step()
    engine.executor.stop_flag.set()
    assert engine.runner.run(engine.scheduler.plan(0.0)) is None
    engine.scheduler.abandon()
    engine.executor.stop_flag.clear()
    engine.run()
    assert engine.tokens[0] == alone(prompt, 4)


# What happens between two steps: a prompt made of a few shared blocks and an own tail arrives, or one is cancelled.
arrivals = st.tuples(
    st.just("add"),
    st.lists(st.integers(0, 1), max_size=3),
    st.integers(1, 20),
    st.integers(0, 25),
    st.booleans(),
)
cancels = st.tuples(st.just("cancel"), st.integers(0, 20))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.one_of(arrivals, cancels), max_size=3), min_size=1, max_size=12),
    st.integers(6, 14),
    st.sampled_from([4, 16, 40]),
    st.sampled_from(["on", "off"]),
)
def test_any_schedule_leaks_nothing_and_changes_no_token(
    between_steps: list[list[tuple]],  # type: ignore[type-arg]
    num_blocks: int,
    step_tokens: int,
    prefix_caching: Literal["on", "off"],
) -> None:
    options = EngineOptions(step_tokens=step_tokens, max_num_seqs=4, prefix_caching=prefix_caching)
    engine = Stepper(num_blocks, options)
    asked: dict[int, tuple[list[int], int, SamplingParams]] = {}
    cancelled = set()
    for actions in between_steps:
        for action in actions:
            if action[0] == "add":
                _, blocks, num_own, max_new_tokens, draws = action
                number = len(asked)
                prompt = [token for block in blocks for token in [block] * 16] + [number] * num_own
                params = SamplingParams(temperature=1.0 if draws else 0.0, seed=number)
                asked[number] = (prompt, max_new_tokens, params)
                engine.add(number, work(prompt, max_new_tokens, params))
            else:
                engine.cancel(action[1])
                cancelled.add(action[1])
        engine.step()
    engine.run()
    assert set(engine.outcomes) == set(asked)
    for number, (prompt, max_new_tokens, params) in asked.items():
        expected = alone(prompt, max_new_tokens, params)
        if engine.outcomes[number].finish_reason == "cancelled":
            assert number in cancelled
            assert engine.tokens[number] == expected[: len(engine.tokens[number])]
        else:
            assert engine.tokens[number] == expected
