"""What the largest logits of a row tell is what the whole row says, and where they cannot tell the row is asked."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from halfline.model.reference import top_logits
from halfline.request import SamplingParams
from halfline.sampling.draw import draw, draw_from_top
from halfline.sampling.sampler import Sampler, score
from halfline.sampling.top_row import TopRow, top_row

VOCAB = 400

logprobs = st.one_of(st.none(), st.integers(0, 7))
temperatures = st.sampled_from([1e-300, 0.01, 0.2, 0.8, 1.0, 1.3, 7.0, 100.0])
shares = st.one_of(st.just(1.0), st.floats(0, 1))
filters = st.builds(
    SamplingParams,
    temperature=temperatures,
    top_k=st.sampled_from([0, 0, 1, 5, 40, 64, 65, 399, 400, 1000]),
    top_p=shares,
    min_p=st.one_of(st.just(0.0), st.floats(0, 1)),
    seed=st.just(5),
    logprobs=logprobs,
)


def row_of(seed: int, spread: float, step: float, size: int = VOCAB) -> NDArray[np.float32]:
    """Logits on a grid: a coarse one has many equals."""
    values = np.random.default_rng(seed).normal(0, spread, size)
    return (np.round(values / step) * step).astype(np.float32)


def top_of(logits: NDArray[np.float32], count: int) -> TopRow:
    found = top_row(top_logits(logits[None], count), 0, len(logits))
    assert found is not None
    return found


rows = st.builds(
    row_of,
    st.integers(0, 1000),
    st.sampled_from([0.0, 0.1, 2.0, 30.0, 900.0]),
    st.sampled_from([1e-6, 0.5, 4.0]),
)


@given(
    rows, filters, st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=8), st.integers(1, VOCAB)
)
def test_a_draw_from_the_top_is_the_draw_from_the_row(
    logits: NDArray[np.float32], params: SamplingParams, uniforms: list[float], count: int
) -> None:
    top = top_of(logits, count)
    for uniform in uniforms:
        drawn = draw_from_top(top, params, uniform)
        assert drawn is None or drawn == draw(logits, params, uniform)


@given(
    st.lists(rows, min_size=1, max_size=6),
    st.one_of(
        filters,
        st.builds(SamplingParams, logprobs=logprobs),
        st.builds(
            SamplingParams,
            repetition_penalty=st.sampled_from([1.0, 1.3]),
            logit_bias=st.sampled_from([{}, {3: 5.0}]),
            logprobs=logprobs,
        ),
    ),
    st.integers(0, 100),
)
def test_a_sampler_says_the_same_with_the_top_that_it_asks_for_and_without(
    logits: list[NDArray[np.float32]], params: SamplingParams, num_more: int
) -> None:
    with_top, without = Sampler(params, [1, 2]), Sampler(params, [1, 2])
    for each in logits:
        count = min(with_top.num_top + num_more, VOCAB)  # a batch mate may want more
        found = with_top.sample(each, top_of(each, count) if count else None)
        whole = without.sample(each)
        assert found.token_id == whole.token_id
        assert found.logprob == pytest.approx(whole.logprob, abs=1e-9)
        assert [token_id for token_id, _ in found.top] == [token_id for token_id, _ in whole.top]
        assert [logprob for _, logprob in found.top] == pytest.approx([logprob for _, logprob in whole.top])


@given(rows, temperatures, st.integers(1, VOCAB), st.floats(-1e-6, 1e-6))
def test_the_weight_of_the_whole_row_is_between_its_bounds(
    logits: NDArray[np.float32], temperature: float, count: int, error: float
) -> None:
    with np.errstate(over="ignore"):
        exact = np.exp((logits.astype(np.float64) - float(logits.max())) / temperature).sum()
    top = top_of(logits, count)
    low, high = TopRow(top.ids, top.logits, top.log_total + error, VOCAB).total_weight(temperature)
    assert low <= exact <= high


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.2, top_p=0.95),
        SamplingParams(temperature=1.0, top_p=0.95),
        SamplingParams(temperature=1.0, top_k=50),
        SamplingParams(temperature=1.3, min_p=0.05),
        SamplingParams(temperature=0.8),
        SamplingParams(temperature=0.8, top_k=40, top_p=0.9, min_p=0.01),
    ],
    ids=lambda p: f"t{p.temperature}-k{p.top_k}-p{p.top_p}-m{p.min_p}",
)
def test_the_top_tells_for_what_editors_ask(params: SamplingParams) -> None:
    """Of a row as models give it: a few likely tokens, a long tail that together weighs a hundredth."""
    logits = row_of(1, 1.5, 1e-6, 49152)
    logits[:8] += np.linspace(17, 10, 8, dtype=np.float32)
    top = top_of(logits, Sampler(params, []).num_top)
    for uniform in np.linspace(0, 0.98, 50):
        assert draw_from_top(top, params, float(uniform)) == draw(logits, params, float(uniform))


def test_what_is_asked_for_is_what_is_of_use() -> None:
    assert Sampler(SamplingParams(), []).num_top == 1
    assert Sampler(SamplingParams(logprobs=0), []).num_top == 1
    assert Sampler(SamplingParams(logprobs=9), []).num_top == 9
    assert Sampler(SamplingParams(temperature=1.0), []).num_top == 64
    assert Sampler(SamplingParams(temperature=1.0, top_k=7), []).num_top == 7
    assert Sampler(SamplingParams(repetition_penalty=2.0), []).num_top == 0, "not the model's own largest"
    assert Sampler(SamplingParams(logit_bias={1: 1.0}, logprobs=2), []).num_top == 2


def test_a_row_that_overflowed_has_no_top() -> None:
    logits = np.array([[1.0, math.nan, 2.0], [1.0, 0.5, 2.0]], np.float32)
    top = top_logits(logits, 2)
    assert top_row(top, 0, 3) is None
    assert top_row(top, 1, 3) is not None


def test_a_score_looks_at_the_row_when_the_top_is_too_short() -> None:
    logits = row_of(3, 2.0, 1e-6)
    assert score(logits, 5, 4, top_of(logits, 3)) == score(logits, 5, 4)
