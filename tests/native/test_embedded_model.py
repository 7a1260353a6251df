"""The embedded model on the CPU executor: next to the reference, and in memory."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from halfline.bench.steps import batch_of
from halfline.model.executor import Batch
from halfline.model.kv_format import KvFormat
from halfline.model.load import open_checkpoint
from halfline.model.reference import ReferenceExecutor
from halfline.native.executor import NativeExecutor, available_isas
from halfline.text.tokenizer import Tokenizer

TEXT = "import os\n\ndef read_lines(path):\n    with open(path) as f:\n        return f.readlines()\n"

MEASURE = """
import resource, sys
from pathlib import Path
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor
checkpoint = open_checkpoint(Path(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
executor = NativeExecutor(checkpoint, num_blocks=64)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024 / executor.weight_bytes)
"""


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    normalised: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return normalised


def test_its_distributions_are_close_to_exact_arithmetic_and_the_same_on_every_path(
    embedded_model: Path, kv_format: KvFormat, one_sequence: Callable[..., Batch]
) -> None:
    """Int8 activations cost 0.002 nats per token here, on average; a wrong layer would cost whole ones."""
    checkpoint = open_checkpoint(embedded_model)
    batch = one_sequence(np.array(Tokenizer(checkpoint.vocab).encode(TEXT)), kv_format=kv_format)
    found = [
        NativeExecutor(checkpoint, num_blocks=8, isa=isa, kv_format=kv_format).run(batch)
        for isa in available_isas()
    ]
    expected = ReferenceExecutor(checkpoint, 3).run(batch)
    assert expected is not None
    actual = found[0]
    assert actual is not None
    for other in found[1:]:
        assert other is not None
        np.testing.assert_array_equal(other.logits, actual.logits)
    p, q = log_probabilities(expected.logits), log_probabilities(actual.logits)
    divergence = (np.exp(p) * (p - q)).sum(axis=1)
    assert divergence.mean() < 0.01
    assert (p.argmax(axis=1) == q.argmax(axis=1)).mean() > 0.85


def test_its_choices_are_its_largest_logits_in_code_and_in_random_tokens(
    embedded_model: Path, isa: str
) -> None:
    checkpoint = open_checkpoint(embedded_model)
    executor = NativeExecutor(checkpoint, num_blocks=13, isa=isa)
    code = Tokenizer(checkpoint.vocab).encode(Path(__file__).read_text("utf-8"))
    random = np.random.default_rng(1).integers(0, checkpoint.spec.vocab_size, 200)
    for token_ids in (code[:200], random):
        batch = batch_of(np.array(token_ids, np.int32), 1, 0, 13)
        for rows in (np.arange(200), np.arange(180, 196), np.arange(3)):
            wanted = rows.astype(np.int32)
            outputs = executor.run(replace(batch, logit_rows=wanted, choice_rows=wanted))
            assert outputs is not None and outputs.choices is not None
            np.testing.assert_array_equal(outputs.choices, outputs.logits.argmax(axis=1))


def test_loading_peaks_below_a_third_more_than_the_weights(embedded_model: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", MEASURE, str(embedded_model)], capture_output=True, text=True, check=True
    )
    assert float(result.stdout) < 1.3
