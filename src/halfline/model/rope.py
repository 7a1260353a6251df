"""The rotary frequencies of a model, scaling worked out; knows neither positions nor tensors.

Executors rotate pair i of a head at place p by the angle p * inverse_frequencies(rope)[i].
"""

import numpy as np
from numpy.typing import NDArray

from halfline.model.spec import FrequencyFactors, LinearScaling, Llama3Scaling, RopeSpec


def inverse_frequencies(rope: RopeSpec) -> NDArray[np.float64]:
    """Radians per place, float64 [rotary_dim / 2], fastest first."""
    exponents = np.arange(0, rope.rotary_dim, 2, dtype=np.float64) / rope.rotary_dim
    frequencies = rope.base**-exponents
    match rope.scaling:
        case None:
            return frequencies
        case LinearScaling(factor):
            return frequencies / factor
        case FrequencyFactors(factors):
            return frequencies / np.asarray(factors, dtype=np.float64)
        case Llama3Scaling():
            return _llama3(frequencies, rope.scaling)


def _llama3(frequencies: NDArray[np.float64], scaling: Llama3Scaling) -> NDArray[np.float64]:
    """Frequencies that turn often within the original context stay, those that hardly turn are divided."""
    turns = scaling.original_max_context * frequencies / (2 * np.pi)
    ramp = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    kept = np.clip(ramp, 0.0, 1.0)
    return kept * frequencies + (1 - kept) * frequencies / scaling.factor
