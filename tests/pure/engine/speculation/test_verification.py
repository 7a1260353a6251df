"""Whatever is guessed, a sequence gets the tokens, scores and ending that it would get without guesses."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.engine.hash_executor import HashExecutor, hash_logits
from halfline.engine.options import EngineOptions
from halfline.engine.plan import Plan
from halfline.engine.runner import Runner
from halfline.engine.scheduler import Scheduler
from halfline.engine.sequence import Outcome, Progress, Sequence, Work
from halfline.engine.speculation.draft import Draft
from halfline.kv.block_pool import BlockPool
from halfline.kv.prefix_index import PrefixIndex
from halfline.model.executor import Batch, Outputs
from halfline.model.kv_format import F16, INT8, KvFormat
from halfline.model.reference import with_logits
from halfline.request import SamplingParams
from halfline.sampling.reader import Piece, Reader
from halfline.sampling.sampler import Row, Sampler, Scored
from halfline.sampling.stop import StopStrings

VOCAB = 258
GREEDY = SamplingParams()

Guesser = Callable[[list[int], int], list[int]]
"""All tokens of a sequence so far and how many more could count; the tokens guessed."""


class Characters:
    """Token n is character n."""

    def push(self, token_id: int) -> str:
        return chr(token_id)

    def finish(self) -> str:
        return ""


class Scripted:
    """A drafter that drafts what `guess` says, of any length, whatever it was allowed."""

    def __init__(self, guess: Guesser) -> None:
        self._guess = guess
        self.ended_ids: list[int] = []
        self.steps: list[tuple[int, float]] = []

    def propose(
        self, rooms: Mapping[Sequence, int], num_rows: int, num_spare_rows: int
    ) -> Mapping[Sequence, Draft]:
        guesses = {sequence: self._guess(sequence.token_ids, room) for sequence, room in rooms.items()}
        return {sequence: Draft(tuple(ids), "own") for sequence, ids in guesses.items() if ids}

    def step_ran(self, num_rows: int, step_ms: float) -> None:
        self.steps.append((num_rows, step_ms))

    def ended(self, sequence: Sequence) -> None:
        self.ended_ids.append(sequence.id)


def alone(prompt: list[int], max_new_tokens: int, params: SamplingParams = GREEDY) -> list[Scored]:
    """The tokens that follow when nothing else exists and nothing is guessed."""
    tokens, sampler = list(prompt), Sampler(params, prompt)
    found = []
    for _ in range(max_new_tokens):
        found.append(sampler.sample(logits_behind(tuple(tokens))))
        tokens.append(found[-1].token_id)
    return found


@lru_cache(maxsize=10_000)
def logits_behind(token_ids: tuple[int, ...]) -> Row:
    return hash_logits(token_ids, VOCAB)


def ids(scored: list[Scored]) -> list[int]:
    return [each.token_id for each in scored]


def right(token_ids: list[int], room: int) -> list[int]:
    """What greedy will say."""
    return ids(alone(token_ids, room))


def wrong(token_ids: list[int], room: int) -> list[int]:
    return [(token_id + 1) % VOCAB for token_id in right(token_ids, min(room, 5))]


def half_right(token_ids: list[int], room: int) -> list[int]:
    """Right tokens, then wrong ones; how many of which depends on the place."""
    num_right = len(token_ids) % 5
    guesses = ids(alone(token_ids, num_right + 3))
    return guesses[:num_right] + [(token_id + 1) % VOCAB for token_id in guesses[num_right:]]


def far_too_long(token_ids: list[int], room: int) -> list[int]:
    return ids(alone(token_ids, room + 40))


def nothing(token_ids: list[int], room: int) -> list[int]:
    return []


GUESSERS = [right, wrong, half_right, far_too_long, nothing]


class Stepper:
    """Scheduler and runner without a thread; the books are checked after every call. Time is the step number."""

    def __init__(
        self,
        guess: Guesser,
        num_blocks: int = 64,
        options: EngineOptions | None = None,
        vocab_size: int = VOCAB,
        kv_format: KvFormat = F16,
    ) -> None:
        self.pool = BlockPool(num_blocks)
        self.drafter = Scripted(guess)
        options = options or EngineOptions(step_tokens=64, max_num_seqs=8)
        self.scheduler = Scheduler(self.pool, PrefixIndex(), options, self.drafter, kv_format)
        self.batches: list[Batch] = []
        self.executor = HashExecutor(
            num_blocks, vocab_size=vocab_size, kv_format=kv_format, before_run=self.batches.append
        )
        self.runner = Runner(self.executor)
        self.pieces: dict[int, Piece] = defaultdict(Piece)
        self.prompt_scores: dict[int, list[Scored]] = defaultdict(list)
        self.outcomes: dict[int, Outcome] = {}
        self.plans: list[Plan] = []

    def add(
        self,
        sequence_id: int,
        prompt: list[int],
        max_new_tokens: int,
        params: SamplingParams = GREEDY,
        stop_token_ids: frozenset[int] = frozenset(),
        prompt_logprobs: int | None = None,
    ) -> None:
        asked = Work(
            prompt_ids=tuple(prompt),
            max_new_tokens=max_new_tokens,
            sampler=Sampler(params, prompt),
            reader=Reader(Characters(), [StopStrings(params.stop)]),
            stop_token_ids=stop_token_ids,
            namespace="me",
            prompt_logprobs=prompt_logprobs,
        )
        self.scheduler.add(sequence_id, asked, self.now)
        self.scheduler.check()

    def step(self) -> None:
        plan = self.scheduler.plan(self.now)
        assert plan.chunks or self.scheduler.idle, "something always advances"
        self.scheduler.check()
        if plan.chunks:
            self.plans.append(plan)
            results = self.runner.run(plan)
            assert results is not None
            self._note(self.scheduler.commit(plan, results, self.now))
        self.scheduler.check()

    def cancel(self, sequence_id: int) -> None:
        self._note(self.scheduler.end([sequence_id], "cancelled", self.now))
        self.scheduler.check()

    def run(self) -> "Stepper":
        while not self.scheduler.idle:
            self.step()
        assert self.pool.num_held == 0
        return self

    def tokens(self, sequence_id: int = 0) -> list[Scored]:
        return list(self.pieces[sequence_id].tokens)

    @property
    def now(self) -> float:
        return float(self.scheduler.stats().total_steps)

    def _note(self, progress: list[Progress]) -> None:
        for each in progress:
            assert each.sequence_id not in self.outcomes, "nothing comes after the outcome"
            self.pieces[each.sequence_id] += each.piece
            self.prompt_scores[each.sequence_id] += each.prompt_scores
            if each.outcome is not None:
                self.outcomes[each.sequence_id] = each.outcome


def prompt_of(length: int, seed: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, 256, length)]


@pytest.mark.parametrize("kv_format", [F16, INT8], ids=["f16", "int8"])
@pytest.mark.parametrize("guess", GUESSERS)
@pytest.mark.parametrize("step_tokens", [1, 7, 64])
def test_greedy_tokens_are_the_same_whatever_is_guessed(
    guess: Guesser, step_tokens: int, kv_format: KvFormat
) -> None:
    engine = Stepper(
        guess, options=EngineOptions(step_tokens=step_tokens, max_num_seqs=1), kv_format=kv_format
    )
    prompt = prompt_of(37, seed=1)
    engine.add(0, prompt, 40)
    engine.run()
    assert engine.tokens() == alone(prompt, 40)
    assert engine.outcomes[0].finish_reason == "length"
    assert engine.outcomes[0].stats.num_generated == 40
    assert engine.drafter.ended_ids == [0]


def test_right_guesses_save_steps_and_wrong_ones_cost_none() -> None:
    prompt = prompt_of(20, seed=2)
    num_steps = {}
    for guess in (nothing, right, wrong, half_right):
        engine = Stepper(guess)
        engine.add(0, prompt, 40)
        engine.run()
        num_steps[guess] = len(engine.plans)
    assert num_steps[nothing] == num_steps[wrong] == 40
    assert num_steps[right] == 1, "all but the first token were guessed beside the prompt"
    assert 1 < num_steps[half_right] < 40


def test_the_drafter_is_told_how_many_rows_ran_and_how_long_that_took() -> None:
    engine = Stepper(half_right)
    engine.add(0, prompt_of(20, seed=2), 10)
    while not engine.scheduler.idle:
        plan = engine.scheduler.plan(100.0)
        results = engine.runner.run(plan)
        assert results is not None
        engine.scheduler.commit(plan, results, 100.25)
        assert engine.drafter.steps[-1] == (plan.num_rows, 250.0)
    assert [num_rows for num_rows, _ in engine.drafter.steps] == [
        len(each.token_ids) for each in engine.batches
    ]


@pytest.mark.parametrize("guess", GUESSERS)
def test_places_computed_are_counted_once_and_drafts_by_themselves(guess: Guesser) -> None:
    engine = Stepper(guess)
    engine.add(0, prompt_of(20, seed=3), 30)
    engine.run()
    stats, totals = engine.outcomes[0].stats, engine.scheduler.stats()
    assert stats.num_computed == totals.total_computed_tokens == 20 + 29
    assert stats.drafted == totals.total_drafted_tokens
    assert stats.accepted == totals.total_accepted_tokens
    drafted, accepted = sum(stats.drafted.values()), sum(stats.accepted.values())
    assert drafted == sum(chunk.num_rows - chunk.num_tokens for plan in engine.plans for chunk in plan.chunks)
    assert drafted - accepted == sum(len(batch.token_ids) for batch in engine.batches) - 49
    expected: dict[Guesser, tuple[int, int]] = {right: (29, 29), far_too_long: (29, 29), nothing: (0, 0)}
    assert (drafted, accepted) == expected.get(guess, (drafted, accepted))
    assert accepted == 0 or guess is not wrong


@pytest.mark.parametrize("guess", GUESSERS)
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0, seed=7),
        SamplingParams(temperature=0.7, top_p=0.9, seed=8, logprobs=2),
        SamplingParams(
            temperature=1.0, repetition_penalty=1.3, frequency_penalty=0.4, presence_penalty=0.2, seed=1
        ),
        SamplingParams(repetition_penalty=1.5, logprobs=0),
        SamplingParams(logit_bias={7: 3.0, 9: -100.0}, logprobs=3),
    ],
)
def test_sampled_tokens_and_logprobs_are_identical_for_the_same_seed(
    guess: Guesser, params: SamplingParams
) -> None:
    prompt = prompt_of(19, seed=4)
    expected = alone(prompt, 40, params)

    def knowing(token_ids: list[int], room: int) -> list[int]:
        """Also the guesser that is right has to be so about what is sampled, not about what greedy says."""
        found = ids(expected)[len(token_ids) - len(prompt) :][:room]
        return found if guess is right else guess(token_ids, room)

    engine = Stepper(knowing)
    engine.add(0, prompt, 40, params)
    engine.run()
    assert engine.tokens() == expected
    assert guess is not right or sum(engine.outcomes[0].stats.accepted.values()) == 39


@pytest.mark.parametrize("guess", GUESSERS)
def test_a_stop_token_inside_an_accepted_run_ends_the_sequence_there(guess: Guesser) -> None:
    prompt = prompt_of(20, seed=8)
    expected = alone(prompt, 20)
    engine = Stepper(guess)
    engine.add(0, prompt, 20, stop_token_ids=frozenset({expected[9].token_id}))
    engine.run()
    assert engine.tokens() == expected[:9]
    assert engine.outcomes[0].finish_reason == "stop"
    assert engine.outcomes[0].stats.num_generated == 10
    assert engine.outcomes[0].stats.num_computed == 20 + 9


def test_no_row_is_spent_on_what_could_only_come_after_the_end() -> None:
    prompt = prompt_of(20, seed=8)
    expected = ids(alone(prompt, 20))
    engine = Stepper(right)
    engine.add(0, prompt, 20, stop_token_ids=frozenset({expected[9]}))
    engine.run()
    assert [chunk.draft_ids for chunk in engine.plans[0].chunks] == [tuple(expected[:9])]


@pytest.mark.parametrize("guess", GUESSERS)
@pytest.mark.parametrize("num_shown", [3, 9])
def test_a_stop_string_inside_an_accepted_run_shows_nothing_behind_it(guess: Guesser, num_shown: int) -> None:
    prompt = prompt_of(20, seed=9)
    text = "".join(chr(each.token_id) for each in alone(prompt, 20))
    stop = text[num_shown : num_shown + 3]
    engine = Stepper(guess)
    engine.add(0, prompt, 20, replace(GREEDY, stop=(stop,)))
    engine.run()
    assert engine.pieces[0].text == text[: text.index(stop)]
    assert engine.outcomes[0].finish_reason == "stop"
    assert engine.outcomes[0].stats.num_generated == text.index(stop) + 3


@pytest.mark.parametrize("guess", GUESSERS)
def test_the_arena_may_be_filled_to_the_last_slot(guess: Guesser) -> None:
    engine = Stepper(guess, num_blocks=4)
    prompt = prompt_of(30, seed=3)
    engine.add(0, prompt, 34)
    engine.run()
    assert engine.tokens() == alone(prompt, 34)


@pytest.mark.parametrize("guess", GUESSERS)
def test_an_int8_arena_may_be_filled_but_for_one_block(guess: Guesser) -> None:
    engine = Stepper(guess, num_blocks=5, kv_format=INT8)
    prompt = prompt_of(30, seed=3)
    engine.add(0, prompt, 34)
    engine.run()
    assert engine.tokens() == alone(prompt, 34)


def test_in_int8_whole_blocks_are_found_again_and_open_ones_computed() -> None:
    engine = Stepper(nothing, kv_format=INT8)
    prompt = prompt_of(40, seed=3)
    for number in range(2):
        engine.add(number, prompt, 9)
        engine.run()
        assert engine.tokens(number) == alone(prompt, 9)
    assert engine.outcomes[1].stats.num_reused == 32


@pytest.mark.parametrize("guess", GUESSERS)
def test_the_context_may_be_filled_to_the_last_place(guess: Guesser) -> None:
    engine = Stepper(guess)
    engine.runner = Runner(HashExecutor(64, max_context=64))
    prompt = prompt_of(30, seed=3)
    engine.add(0, prompt, 34)
    engine.run()
    assert engine.tokens() == alone(prompt, 34)


@pytest.mark.parametrize("guess", GUESSERS)
def test_where_blocks_run_out_drafts_take_only_what_is_free(guess: Guesser) -> None:
    prompts = [prompt_of(30, seed=number) for number in range(3)]
    engine = Stepper(guess, num_blocks=6)
    for number, prompt in enumerate(prompts):
        engine.add(number, prompt, 40, SamplingParams(temperature=0.5, seed=number))
    engine.run()
    assert next(iter(engine.outcomes)) == 0
    for number, prompt in enumerate(prompts):
        assert engine.tokens(number) == alone(prompt, 40, SamplingParams(temperature=0.5, seed=number))


def test_a_draft_does_not_preempt_anybody() -> None:
    engine = Stepper(wrong_and_long, num_blocks=6)
    for number in range(2):
        engine.add(number, prompt_of(40, seed=number), 8)
    engine.run()
    assert engine.scheduler.stats().total_preemptions == 0
    assert any(chunk.draft_ids for plan in engine.plans for chunk in plan.chunks)


def wrong_and_long(token_ids: list[int], room: int) -> list[int]:
    return [0] * 60


def test_a_draft_that_finds_no_free_block_still_fills_the_places_there_are() -> None:
    engine = Stepper(right, num_blocks=3)
    engine.add(0, prompt_of(20, seed=1), 4)
    engine.add(1, prompt_of(5, seed=2), 30)
    engine.step()
    drafted = {chunk.sequence.id: len(chunk.draft_ids) for chunk in engine.plans[0].chunks}
    assert drafted == {0: 3, 1: 16 - 5}, "two blocks and one: the second sequence's last eleven places"
    engine.run()
    assert engine.tokens(1) == alone(prompt_of(5, seed=2), 30)


def test_drafts_get_what_prompts_leave_of_the_budget() -> None:
    engine = Stepper(right, num_blocks=200, options=EngineOptions(step_tokens=32, max_num_seqs=8))
    engine.add(0, prompt_of(5, seed=1), 60)
    engine.step()
    engine.add(1, prompt_of(100, seed=2), 3)
    for num_prompt_tokens in (31, 31, 31):
        engine.step()
        chunks = {chunk.sequence.id: chunk for chunk in engine.plans[-1].chunks}
        assert (chunks[0].num_rows, chunks[1].num_rows) == (1, num_prompt_tokens)
    engine.run()
    assert max(plan.num_rows for plan in engine.plans) == 32
    assert engine.tokens(0) == alone(prompt_of(5, seed=1), 60)


def test_a_prompt_that_is_cut_short_of_the_budget_carries_no_draft() -> None:
    options = EngineOptions(step_tokens=256, max_num_seqs=8)
    engine = Stepper(wrong, num_blocks=200, options=options)
    prompts = [prompt_of(150, seed=number) for number in range(3)]
    for number, prompt in enumerate(prompts):
        engine.add(number, prompt, 10)
    engine.run()
    cut = [chunk for plan in engine.plans for chunk in plan.chunks if not chunk.samples]
    assert any(
        chunk.num_tokens < 150 and plan.num_rows < 256 for plan in engine.plans for chunk in plan.chunks
    )
    assert cut and not any(chunk.draft_ids for chunk in cut)
    assert all(engine.tokens(number) == alone(prompt, 10) for number, prompt in enumerate(prompts))


def test_rejected_places_are_neither_published_nor_reused() -> None:
    prompt = prompt_of(30, seed=5)
    guessed = [1, 2, 3] * 12

    def one_guess(token_ids: list[int], room: int) -> list[int]:
        return guessed if len(token_ids) == 30 else []

    engine = Stepper(one_guess)
    engine.add(0, prompt, 40)
    engine.step()
    engine.step()
    engine.add(1, prompt + guessed, 5)
    engine.run()
    reused = engine.outcomes[1].stats.num_reused
    assert reused <= 30, "beyond the prompt the block holds other tokens than were guessed"
    assert engine.tokens(1) == alone(prompt + guessed, 5)


def test_accepted_places_are_reused_by_the_next_prompt() -> None:
    prompt = prompt_of(20, seed=6)
    engine = Stepper(right)
    engine.add(0, prompt, 30)
    engine.run()
    engine.add(1, prompt + ids(alone(prompt, 30)), 5)
    engine.run()
    assert engine.outcomes[1].stats.num_reused >= 48
    assert engine.tokens(1) == alone(prompt + ids(alone(prompt, 30)), 5)


@pytest.mark.parametrize("guess", GUESSERS)
def test_an_echoed_prompt_is_scored_the_same_beside_drafts(guess: Guesser) -> None:
    prompt = prompt_of(50, seed=9)
    plain = Stepper(nothing)
    plain.add(0, prompt, 10, SamplingParams(logprobs=2), prompt_logprobs=2)
    engine = Stepper(guess)
    engine.add(0, prompt, 10, SamplingParams(logprobs=2), prompt_logprobs=2)
    assert engine.run().prompt_scores[0] == plain.run().prompt_scores[0]
    assert len(engine.prompt_scores[0]) == 49
    assert engine.tokens() == plain.tokens()


class OverflowingAfter(HashExecutor):
    """From the `num_tokens`-th token of a sequence on, all logits are NaN."""

    def __init__(self, num_tokens: int) -> None:
        super().__init__(64)
        self._num_tokens = num_tokens

    def run(self, batch: Batch) -> Outputs | None:
        outputs = super().run(batch)
        assert outputs is not None and len(batch.first_places) == 1
        places = batch.first_places[0] + batch.logit_rows
        outputs.logits[places + 1 >= self._num_tokens] = np.nan
        return with_logits(outputs, outputs.logits)


@pytest.mark.parametrize("guess", GUESSERS)
def test_a_row_that_overflows_behind_the_end_of_the_sequence_is_nobodys_failure(guess: Guesser) -> None:
    prompt = prompt_of(20, seed=8)
    text = "".join(chr(each.token_id) for each in alone(prompt, 20))
    engine = Stepper(guess)
    engine.runner = Runner(OverflowingAfter(20 + 8))
    engine.add(0, prompt, 20, replace(GREEDY, stop=(text[5:8],)))
    engine.run()
    assert engine.outcomes[0].finish_reason == "stop"
    assert engine.pieces[0].text == text[:5]


@pytest.mark.parametrize("guess", GUESSERS)
def test_a_row_that_overflows_inside_a_run_fails_the_sequence_behind_the_same_tokens(guess: Guesser) -> None:
    prompt = prompt_of(20, seed=8)
    engine = Stepper(guess)
    engine.runner = Runner(OverflowingAfter(20 + 6))
    engine.add(0, prompt, 20)
    engine.run()
    assert engine.outcomes[0].finish_reason == "failed"
    assert engine.tokens() == alone(prompt, 6)
    assert engine.pool.num_held == 0


def test_a_stopped_step_with_drafts_counts_for_nothing_and_is_run_again() -> None:
    engine = Stepper(half_right)
    prompt = prompt_of(40, seed=0)
    engine.add(0, prompt, 20)
    engine.step()
    engine.executor.stop_flag.set()
    assert engine.runner.run(engine.scheduler.plan(0.0)) is None
    engine.scheduler.abandon()
    engine.executor.stop_flag.clear()
    engine.run()
    assert engine.tokens() == alone(prompt, 20)


def test_drawing_beside_drafts_leaves_the_distribution_as_it_is() -> None:
    """Pairs of drawn tokens, over many seeds and always the same draft, against their exact probabilities."""
    vocab_size, num_draws, prompt = 6, 2000, [1, 2, 3]
    probabilities = {}
    for first, chance in enumerate(softmax(hash_logits(prompt, vocab_size))):
        for second, next_chance in enumerate(softmax(hash_logits([*prompt, first], vocab_size))):
            probabilities[first, second] = chance * next_chance
    engine = Stepper(
        lambda token_ids, room: [0, 1, 2][:room],
        num_blocks=2000,
        options=EngineOptions(step_tokens=256, max_num_seqs=64),
        vocab_size=vocab_size,
    )
    for seed in range(num_draws):
        engine.scheduler.add(seed, *_drawing_pair(prompt, seed))
        while seed % 64 == 63 and not engine.scheduler.idle:
            step_unchecked(engine)
    while not engine.scheduler.idle:
        step_unchecked(engine)
    assert sum(engine.scheduler.stats().total_accepted_tokens.values()) > num_draws / 20
    counts = Counter(tuple(ids(engine.tokens(seed))) for seed in range(num_draws))
    chi_square = sum(
        (counts[pair] - num_draws * chance) ** 2 / (num_draws * chance)
        for pair, chance in probabilities.items()
    )
    assert chi_square < 69.2, "35 degrees of freedom: one honest run in two thousand exceeds this"


def step_unchecked(engine: Stepper) -> None:
    plan = engine.scheduler.plan(0.0)
    results = engine.runner.run(plan)
    assert results is not None
    engine._note(engine.scheduler.commit(plan, results, 0.0))


def _drawing_pair(prompt: list[int], seed: int) -> tuple[Work, float]:
    params = SamplingParams(temperature=1.0, seed=seed)
    asked = Work(
        prompt_ids=tuple(prompt),
        max_new_tokens=2,
        sampler=Sampler(params, prompt),
        reader=Reader(Characters()),
        stop_token_ids=frozenset(),
        namespace="me",
    )
    return asked, 0.0


def softmax(logits: Row) -> list[float]:
    weights = np.exp(logits.astype(np.float64))
    return [float(weight) for weight in weights / weights.sum()]


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


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.one_of(arrivals, cancels), max_size=3), min_size=1, max_size=12),
    st.integers(6, 14),
    st.sampled_from([4, 16, 40]),
    scripts,
)
def test_any_schedule_with_any_drafts_leaks_nothing_and_changes_no_token(
    between_steps: list[list[tuple[Any, ...]]],
    num_blocks: int,
    step_tokens: int,
    script: list[tuple[int, int]],
) -> None:
    asked: dict[int, tuple[list[int], int, SamplingParams]] = {}
    expected: dict[int, list[Scored]] = {}
    cancelled = set()

    def guess(token_ids: list[int], room: int) -> list[int]:
        num_right, num_wrong = script[len(token_ids) % len(script)]
        for number, (prompt, _, _) in asked.items():
            if token_ids[: len(prompt)] == prompt:
                coming = ids(expected[number])[len(token_ids) - len(prompt) :]
                return coming[:num_right] + [3] * num_wrong
        raise AssertionError("asked about a sequence nobody added")

    engine = Stepper(guess, num_blocks, EngineOptions(step_tokens=step_tokens, max_num_seqs=4))
    for actions in between_steps:
        for action in actions:
            if action[0] == "add":
                _, blocks, num_own, max_new_tokens, draws = action
                number = len(asked)
                prompt = [token for block in blocks for token in [block] * 16] + [number + 2] * num_own
                params = SamplingParams(temperature=1.0 if draws else 0.0, seed=number)
                asked[number] = (prompt, max_new_tokens, params)
                expected[number] = alone(prompt, max_new_tokens, params)
                engine.add(number, prompt, max_new_tokens, params)
            else:
                engine.cancel(action[1])
                cancelled.add(action[1])
        engine.step()
    engine.run()
    assert set(engine.outcomes) == set(asked) == set(engine.drafter.ended_ids)
    for number in asked:
        if engine.outcomes[number].finish_reason == "cancelled":
            assert number in cancelled
            assert engine.tokens(number) == expected[number][: len(engine.tokens(number))]
        else:
            assert engine.tokens(number) == expected[number]
