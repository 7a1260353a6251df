import numpy as np

from halfline.model.rope import inverse_frequencies
from halfline.model.spec import FrequencyFactors, LinearScaling, Llama3Scaling, RopeSpec


def test_plain_frequencies_fall_from_one_by_equal_ratios() -> None:
    frequencies = inverse_frequencies(RopeSpec(base=16.0, rotary_dim=8))
    np.testing.assert_allclose(frequencies, [1, 1 / 2, 1 / 4, 1 / 8])


def test_linear_scaling_divides_all_and_factors_divide_each() -> None:
    linear = RopeSpec(base=16.0, rotary_dim=8, scaling=LinearScaling(4.0))
    np.testing.assert_allclose(inverse_frequencies(linear), [1 / 4, 1 / 8, 1 / 16, 1 / 32])
    factors = RopeSpec(base=16.0, rotary_dim=8, scaling=FrequencyFactors((1.0, 1.0, 2.0, 8.0)))
    np.testing.assert_allclose(inverse_frequencies(factors), [1, 1 / 2, 1 / 8, 1 / 64])


def test_llama3_scaling_keeps_the_fast_divides_the_slow_and_ramps_between() -> None:
    scaling = Llama3Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_context=64)
    plain = inverse_frequencies(RopeSpec(base=10_000.0, rotary_dim=32))
    scaled = inverse_frequencies(RopeSpec(base=10_000.0, rotary_dim=32, scaling=scaling))
    turns = 64 * plain / (2 * np.pi)
    np.testing.assert_array_equal(scaled[turns > 4], plain[turns > 4])
    np.testing.assert_allclose(scaled[turns < 1], plain[turns < 1] / 8)
    between = (turns > 1) & (turns < 4)
    assert between.sum() == 3
    assert np.all((scaled[between] < plain[between]) & (scaled[between] > plain[between] / 8))
