"""Whatever is guessed, a sequence gets the tokens and scores that it would get without guesses."""

from collections import Counter

import numpy as np
import pytest
from character_work import alone, ids, prompt_of, work
from guessers import GUESSERS, Guesser, Scripted, nothing, right
from stepped_engine import SteppedEngine

from halfline.engine.hash_executor import HashExecutor, hash_logits
from halfline.engine.options import EngineOptions
from halfline.model.kv_format import F16, INT8, KvFormat
from halfline.request import SamplingParams
from halfline.sampling.sampler import Row


@pytest.mark.parametrize("kv_format", [F16, INT8], ids=["f16", "int8"])
@pytest.mark.parametrize("guess", GUESSERS)
@pytest.mark.parametrize("step_tokens", [1, 7, 64])
def test_greedy_tokens_are_the_same_whatever_is_guessed(
    guess: Guesser, step_tokens: int, kv_format: KvFormat
) -> None:
    drafter = Scripted(guess)
    options = EngineOptions(step_tokens=step_tokens, max_num_seqs=1)
    engine = SteppedEngine(HashExecutor(64, kv_format=kv_format), options, drafter)
    prompt = prompt_of(37, seed=1)
    engine.add(0, work(prompt, 40))
    engine.run()
    assert engine.tokens[0] == alone(prompt, 40)
    assert engine.outcomes[0].finish_reason == "length"
    assert engine.outcomes[0].stats.num_generated == 40
    assert drafter.ended_ids == [0]


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

    engine = SteppedEngine(drafter=Scripted(knowing))
    engine.add(0, work(prompt, 40, params))
    engine.run()
    assert engine.tokens[0] == expected
    assert guess is not right or sum(engine.outcomes[0].stats.accepted.values()) == 39


@pytest.mark.parametrize("guess", GUESSERS)
def test_an_echoed_prompt_is_scored_the_same_beside_drafts(guess: Guesser) -> None:
    prompt = prompt_of(50, seed=9)
    engines = [SteppedEngine(drafter=Scripted(each)) for each in (nothing, guess)]
    for engine in engines:
        engine.add(0, work(prompt, 10, SamplingParams(logprobs=2), prompt_logprobs=2))
        engine.run()
    plain, drafted = engines
    assert drafted.prompt_scores[0] == plain.prompt_scores[0]
    assert len(drafted.prompt_scores[0]) == 49
    assert drafted.tokens == plain.tokens


def test_drawing_beside_drafts_leaves_the_distribution_as_it_is() -> None:
    """Pairs of drawn tokens, over many seeds and always the same draft, against their exact probabilities."""
    vocab_size, num_draws, prompt = 6, 2000, [1, 2, 3]
    probabilities = {}
    for first, chance in enumerate(softmax(hash_logits(prompt, vocab_size))):
        for second, next_chance in enumerate(softmax(hash_logits([*prompt, first], vocab_size))):
            probabilities[first, second] = chance * next_chance
    engine = SteppedEngine(
        HashExecutor(2000, vocab_size=vocab_size),
        EngineOptions(step_tokens=256, max_num_seqs=64),
        Scripted(lambda token_ids, room: [0, 1, 2][:room]),
    )
    scheduler = engine.scheduler  # without a look at the books after every call: there are thousands
    for seed in range(num_draws):
        scheduler.add(seed, work(prompt, 2, SamplingParams(temperature=1.0, seed=seed)), 0.0)
        while seed % 64 == 63 and not scheduler.idle:
            engine.run_planned(scheduler.plan(0.0), 0.0)
    while not scheduler.idle:
        engine.run_planned(scheduler.plan(0.0), 0.0)
    assert sum(scheduler.stats().total_accepted_tokens.values()) > num_draws / 20
    counts = Counter(tuple(ids(engine.tokens[seed])) for seed in range(num_draws))
    chi_square = sum(
        (counts[pair] - num_draws * chance) ** 2 / (num_draws * chance)
        for pair, chance in probabilities.items()
    )
    assert chi_square < 69.2, "35 degrees of freedom: one honest run in two thousand exceeds this"


def softmax(logits: Row) -> list[float]:
    weights = np.exp(logits.astype(np.float64))
    return [float(weight) for weight in weights / weights.sum()]
