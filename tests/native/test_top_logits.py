"""The largest logits of a row, found by the executor, against sorting the whole row."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from halfline.model.executor import Batch, TopLogits
from halfline.model.random_model import MemoryCheckpoint, random_checkpoint
from halfline.model.reference import top_logits
from halfline.native.executor import NativeExecutor

ROWS = 20


def run_top(
    checkpoint: MemoryCheckpoint, isa: str | None, count: int, one_sequence: Callable[..., Batch]
) -> tuple[np.ndarray, TopLogits]:
    executor = NativeExecutor(checkpoint, num_blocks=2, isa=isa, num_threads=2)
    batch = one_sequence(np.random.default_rng(1).integers(0, checkpoint.spec.vocab_size, ROWS))
    outputs = executor.run(replace(batch, top_k=count))
    assert outputs is not None and outputs.top is not None
    return outputs.logits, outputs.top


def with_head(checkpoint: MemoryCheckpoint, data: np.ndarray) -> MemoryCheckpoint:
    tensors = dict(checkpoint.tensors)
    tensors["head.weight"] = replace(tensors["head.weight"], data=data)
    return replace(checkpoint, tensors=tensors)


@pytest.mark.parametrize("count", [1, 2, 17, 259])
@pytest.mark.parametrize("vocab_size", [259, 4096])
def test_the_largest_are_those_of_a_sorted_row(
    vocab_size: int, count: int, isa: str, one_sequence: Callable[..., Batch]
) -> None:
    logits, top = run_top(random_checkpoint(vocab_size=vocab_size), isa, count, one_sequence)
    expected = top_logits(logits, count)
    np.testing.assert_array_equal(top.ids, expected.ids)
    np.testing.assert_array_equal(top.logits, expected.logits)
    np.testing.assert_allclose(top.log_totals, expected.log_totals, rtol=0, atol=1e-6)


def test_among_equals_the_lower_id_comes_first(isa: str, one_sequence: Callable[..., Batch]) -> None:
    checkpoint = random_checkpoint(vocab_size=400, tied=False)
    head = checkpoint.tensors["head.weight"]
    repeated = with_head(checkpoint, np.tile(head.data[:40], (10, 1)))
    _, top = run_top(repeated, isa, 25, one_sequence)
    np.testing.assert_array_equal(np.diff(top.ids[:, :10], axis=1), 40)
    np.testing.assert_array_equal(top.ids[:, 10:20] % 40, np.repeat(top.ids[:, 10:11], 10, axis=1))
    assert np.all(np.diff(top.ids[:, 20:], axis=1) == 40)


def test_a_row_that_overflowed_has_no_total(isa: str, one_sequence: Callable[..., Batch]) -> None:
    checkpoint = random_checkpoint(vocab_size=400, tied=False)
    data = checkpoint.tensors["head.weight"].data.copy()
    data[77] = np.full(64, 3e38, dtype=np.float32).view(np.uint8)
    logits, top = run_top(with_head(checkpoint, data), isa, 3, one_sequence)
    finite = np.isfinite(logits).all(axis=1)
    assert not finite.all()
    np.testing.assert_array_equal(np.isnan(top.log_totals), ~finite)


def test_what_nobody_asked_for_is_absent(one_sequence: Callable[..., Batch]) -> None:
    outputs = NativeExecutor(random_checkpoint(), num_blocks=2).run(one_sequence(np.arange(3)))
    assert outputs is not None and outputs.top is None
    executor = NativeExecutor(random_checkpoint(), num_blocks=2)
    with pytest.raises(ValueError, match="the 259 largest of 258 logits"):
        executor.run(replace(one_sequence(np.arange(3)), top_k=259))
