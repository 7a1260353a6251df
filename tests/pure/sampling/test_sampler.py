"""What is drawn follows the distribution that the parameters describe."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from halfline.request import SamplingParams
from halfline.sampling.draw import draw
from halfline.sampling.sampler import Sampler, score

VOCAB = 50


def row(*values: float) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def random_row(seed: int, size: int = VOCAB) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 2, size).astype(np.float32)


def expected_probabilities(logits: NDArray[np.float32], params: SamplingParams) -> NDArray[np.float64]:
    """The filtered distribution, written out plainly."""
    scaled = logits.astype(np.float64) / params.temperature
    probabilities = np.exp(scaled - scaled.max())
    order = np.argsort(-probabilities, kind="stable")
    kept = list(order[: params.top_k or len(order)])
    if params.top_p < 1.0:
        goal = params.top_p * probabilities[kept].sum()
        total, nucleus = 0.0, []
        for token in kept:
            nucleus.append(token)
            total += probabilities[token]
            if total >= goal:
                break
        kept = nucleus
    kept = [token for token in kept if probabilities[token] >= params.min_p * probabilities.max()]
    filtered = np.zeros(len(logits), np.float64)
    filtered[kept] = probabilities[kept] / probabilities[kept].sum()
    return filtered


def test_greedy_takes_the_largest_and_the_lowest_id_of_equals() -> None:
    sampler = Sampler(SamplingParams(), prompt_ids=[])
    assert sampler.sample(row(1, 3, 3, 2)).token_id == 1


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0, seed=1),
        SamplingParams(temperature=0.5, seed=2),
        SamplingParams(temperature=1.3, top_k=5, seed=3),
        SamplingParams(temperature=1.0, top_p=0.7, seed=4),
        SamplingParams(temperature=1.0, min_p=0.1, seed=5),
        SamplingParams(temperature=1.5, top_k=20, top_p=0.8, min_p=0.05, seed=6),
    ],
    ids=lambda p: f"t{p.temperature}-k{p.top_k}-p{p.top_p}-m{p.min_p}",
)
def test_draws_follow_the_filtered_distribution(params: SamplingParams) -> None:
    logits = random_row(seed=11)
    probabilities = expected_probabilities(logits, params)
    sampler = Sampler(params, prompt_ids=[])
    num_draws = 4000
    counts = np.bincount([sampler.sample(logits).token_id for _ in range(num_draws)], minlength=VOCAB)
    assert not counts[probabilities == 0].any(), "a filtered token was drawn"
    expected = probabilities * num_draws
    common = expected >= 5
    chi_square = ((counts - expected)[common] ** 2 / expected[common]).sum()
    rest, expected_rest = counts[~common].sum(), expected[~common].sum()
    if expected_rest > 0:
        chi_square += (rest - expected_rest) ** 2 / expected_rest
    freedom = int(common.sum())
    # Mean `freedom`, deviation sqrt(2 * freedom): five deviations are passed once in a million seeds, ours is fixed.
    assert chi_square < freedom + 5 * math.sqrt(2 * freedom) + 5


@given(
    st.integers(0, 10_000),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 60),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0.05, 5),
)
def test_no_filtered_token_is_ever_drawn(
    seed: int, uniform: float, top_k: int, top_p: float, min_p: float, temperature: float
) -> None:
    logits = random_row(seed)
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    assert expected_probabilities(logits, params)[draw(logits, params, uniform)] > 0


def test_top_p_is_right_when_the_short_list_is_too_short() -> None:
    logits = np.zeros(2000, np.float32)
    params = SamplingParams(temperature=1.0, top_p=0.9)
    drawn = [draw(logits, params, uniform) for uniform in np.linspace(0, 0.9999, 5000)]
    assert set(drawn) == set(range(1800))


def test_a_tiny_temperature_is_greedy() -> None:
    params = SamplingParams(temperature=1e-300, top_p=0.9, seed=1)
    assert Sampler(params, prompt_ids=[]).sample(row(1, 2, 3, 0)).token_id == 2


def test_the_same_seed_gives_the_same_tokens_and_choices_differ() -> None:
    rows = [random_row(seed) for seed in range(30)]

    def tokens(seed: int | None, stream: int) -> list[int]:
        sampler = Sampler(SamplingParams(temperature=1.0, seed=seed), [], stream)
        return [sampler.sample(logits).token_id for logits in rows]

    assert tokens(7, 0) == tokens(7, 0)
    assert tokens(7, 0) != tokens(7, 1)
    assert tokens(7, 0) != tokens(8, 0)
    assert tokens(-1, 0) == tokens(-1, 0)
    assert tokens(None, 0) != tokens(None, 0)


def test_repetition_counts_the_prompt_and_the_output() -> None:
    params = SamplingParams(repetition_penalty=2.0)
    sampler = Sampler(params, prompt_ids=[0])
    logits = row(5, 4, 3, -1)
    assert sampler.sample(logits).token_id == 1, "5 / 2 < 4: the prompt's token is penalised"
    assert sampler.sample(logits).token_id == 2, "4 / 2 < 3: the output's token too"


def test_a_repetition_penalty_lowers_negative_logits_too() -> None:
    sampler = Sampler(SamplingParams(repetition_penalty=2.0), prompt_ids=[0])
    assert sampler.sample(row(-1, -1.5)).token_id == 1


def test_presence_counts_once_and_frequency_every_time_in_the_output_alone() -> None:
    presence = Sampler(SamplingParams(presence_penalty=1.5), prompt_ids=[0])
    assert [presence.sample(row(2, 1, 0)).token_id for _ in range(4)] == [0, 1, 0, 0]
    frequency = Sampler(SamplingParams(frequency_penalty=0.6), prompt_ids=[0])
    assert [frequency.sample(row(2, 1, 0)).token_id for _ in range(4)] == [0, 0, 1, 0]


def test_a_bias_moves_the_choice_but_not_the_logprobs() -> None:
    logits = row(2, 1, 0)
    plain = score(logits, 1, 0)
    biased = Sampler(SamplingParams(logit_bias={1: 100.0}, logprobs=0), []).sample(logits)
    assert biased == plain
    assert logits.tolist() == [2, 1, 0], "the row is not ours to change"


def test_logprobs_are_the_models_own() -> None:
    logits = random_row(5)
    exact = logits.astype(np.float64) - np.log(np.exp(logits.astype(np.float64)).sum())
    params = SamplingParams(temperature=2.0, top_k=3, seed=1, logprobs=4, presence_penalty=1.0)
    scored = Sampler(params, prompt_ids=[]).sample(logits)
    assert scored.logprob == pytest.approx(exact[scored.token_id], abs=1e-12)
    likeliest = np.argsort(-exact, kind="stable")[:4]
    assert [token_id for token_id, _ in scored.top] == likeliest.tolist()
    assert [logprob for _, logprob in scored.top] == pytest.approx(exact[likeliest].tolist(), abs=1e-12)


@pytest.mark.parametrize("logits", [(0, math.nan), (0, math.inf), (-math.inf, -math.inf), (-math.inf, 0)])
def test_a_score_is_a_finite_number_or_refused(logits: tuple[float, ...]) -> None:
    with pytest.raises(FloatingPointError, match="largest logit"):
        score(row(*logits), 0, 1)
    assert score(row(0, -math.inf), 0, 2).top == ((0, 0.0),), "an impossible token is no alternative"


def test_equal_alternatives_are_listed_lowest_id_first() -> None:
    assert [token_id for token_id, _ in score(row(1, 1, 1, 1), 0, 2).top] == [0, 1]


@pytest.mark.parametrize(
    "params", [SamplingParams(), SamplingParams(temperature=1.0)], ids=["greedy", "drawn"]
)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_without_a_finite_maximum_are_refused(params: SamplingParams, bad: float) -> None:
    with pytest.raises(FloatingPointError, match="largest logit"):
        Sampler(params, []).sample(row(0, bad, 1))


@pytest.mark.parametrize(
    ("params", "takes_it"),
    [
        (SamplingParams(), True),
        (SamplingParams(temperature=0.3), False),
        (SamplingParams(logprobs=0), False),
        (SamplingParams(presence_penalty=0.5), False),
        (SamplingParams(logit_bias={3: -1.0}), False),
    ],
)
def test_only_plain_greedy_takes_the_largest_logit_and_wants_nothing_more(
    params: SamplingParams, takes_it: bool
) -> None:
    assert Sampler(params, ()).takes_the_largest is takes_it
