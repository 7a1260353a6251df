"""The kernels that serve are as close to the reference as llama.cpp's, on real code, and far closer than any damage.

bench/results/kl_llama_cpp.json is llama.cpp's own divergence on the very same positions (bench/peers says how it is
measured again).
"""

import json
from pathlib import Path

import numpy as np
import pytest

from halfline.model.executor import BLOCK_TOKENS
from halfline.model.load import open_checkpoint
from halfline.model.reference import ReferenceExecutor
from halfline.model.store import sha256_of
from halfline.native.executor import NativeExecutor
from halfline.quality.damage import NoisyLogits
from halfline.quality.divergence import Divergence, ExecutorLogits, measure, summarize
from halfline.quality.gate import NEAR_LOSSLESS
from halfline.quality.texts import Window, cut_windows, default_texts, fingerprint
from halfline.text.tokenizer import Tokenizer

RECORDED = Path(__file__).parents[3] / "bench" / "results" / "kl_llama_cpp.json"
MAX_WINDOW = 512


@pytest.fixture(scope="module")
def compared(embedded_model: Path) -> tuple[tuple[Window, ...], Divergence, Divergence]:
    """The windows, how far the native executor is from the reference on them, and how far it is when damaged."""
    checkpoint = open_checkpoint(embedded_model)
    windows = cut_windows(
        default_texts(), Tokenizer(checkpoint.vocab).encode, num_positions=2000, max_window=MAX_WINDOW
    )
    num_blocks = MAX_WINDOW // BLOCK_TOKENS
    reference = ReferenceExecutor(checkpoint, num_blocks)
    native = NativeExecutor(checkpoint, num_blocks=num_blocks)
    right = measure(ExecutorLogits(reference), ExecutorLogits(native), windows)
    noisy = NoisyLogits(native, 0.2, np.random.default_rng(0))
    wrong = measure(ExecutorLogits(native), ExecutorLogits(noisy), windows[:2])
    checkpoint.close()
    return windows, summarize(right), summarize(wrong)


def test_native_is_as_close_to_the_reference_as_llama_cpp_is(
    embedded_model: Path, compared: tuple[tuple[Window, ...], Divergence, Divergence]
) -> None:
    windows, native, _ = compared
    recorded = json.loads(RECORDED.read_text())
    assert recorded["positions_sha256"] == fingerprint(windows), "measure llama.cpp again: other positions"
    assert recorded["model_sha256"] == sha256_of(embedded_model), "measure llama.cpp again: another model"
    assert native.num_positions >= 2000
    assert native.mean_kl <= 5e-3
    assert native.mean_kl <= 1.1 * recorded["divergence"]["mean_kl"]


def test_noise_on_the_real_model_trips_the_gate_for_features(
    compared: tuple[tuple[Window, ...], Divergence, Divergence],
) -> None:
    _, _, damaged = compared
    assert NEAR_LOSSLESS.breaches(damaged) != ()
