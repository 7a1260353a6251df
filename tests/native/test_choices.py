"""The token an executor chooses for a row is that of the largest of all its logits, of which it computes few."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from random_tensor import FLOATS, SCALES_AT, random_tensor

from halfline.model.checkpoint import Tensor, TensorFormat
from halfline.model.dequantize import dequantize
from halfline.model.executor import Batch, Outputs
from halfline.model.kv_format import KvFormat
from halfline.model.random_model import MemoryCheckpoint, random_checkpoint
from halfline.model.reference import choices_of
from halfline.native import _native
from halfline.native.executor import NativeExecutor, available_isas

HIDDEN, VOCAB = 256, 1003  # the last panel has 11 of 16 rows
ROWS = 40

OneSequence = Callable[..., Batch]


def with_tensors(checkpoint: MemoryCheckpoint, **tensors: Tensor) -> MemoryCheckpoint:
    named = {f"{name}.weight": tensor for name, tensor in tensors.items()}
    return replace(checkpoint, tensors={**checkpoint.tensors, **named})


def with_head(head: Tensor, **options: object) -> MemoryCheckpoint:
    checkpoint = random_checkpoint(
        hidden_size=HIDDEN, vocab_size=head.shape[0], tied=False, num_layers=1, **options
    )  # type: ignore[arg-type]
    return with_tensors(checkpoint, head=replace(head, name="head.weight"))


def run_rows(executor: NativeExecutor, one_sequence: OneSequence, rows: np.ndarray, seed: int = 1) -> Outputs:
    """All logits and hidden states, and the choices of these rows."""
    token_ids = np.random.default_rng(seed).integers(0, 256, ROWS)
    outputs = executor.run(replace(one_sequence(token_ids), choice_rows=rows.astype(np.int32)))
    assert outputs is not None
    return outputs


def assert_largest(executor: NativeExecutor, one_sequence: OneSequence) -> Outputs:
    """For any number of rows, in any order."""
    generator = np.random.default_rng(2)
    for count in (0, 1, 2, 5, 6, 7, 17, ROWS):
        rows = generator.permutation(ROWS)[:count]
        outputs = run_rows(executor, one_sequence, rows)
        assert outputs.choices is not None and outputs.choices.dtype == np.int32
        np.testing.assert_array_equal(outputs.choices, choices_of(outputs.logits[rows]))
    return outputs


def floats(values: np.ndarray) -> Tensor:
    return Tensor("a", TensorFormat.F32, values.shape, values.astype(np.float32)[None].view(np.uint8))


@pytest.mark.parametrize("format", TensorFormat)
def test_a_choice_is_the_largest_logit_in_every_format(
    format: TensorFormat, isa: str, one_sequence: OneSequence
) -> None:
    head = random_tensor(format, VOCAB, HIDDEN, np.random.default_rng(format.value))
    for threads in (1, 3):
        outputs = assert_largest(
            NativeExecutor(with_head(head), num_blocks=3, isa=isa, num_threads=threads), one_sequence
        )
        assert outputs.choices is not None and len(set(outputs.choices.tolist())) > 10


def near_ties(format: TensorFormat, generator: np.random.Generator) -> Tensor:
    """Rows that differ from the first in a few quants, by one, and never in the first of 32."""
    one = random_tensor(format, 1, HIDDEN, generator)
    blocks = np.repeat(one.data, VOCAB, axis=0).reshape(VOCAB, -1, format.block_bytes)
    places = [place for place in range(format.block_bytes) if _may_differ(one, place)]
    for row in blocks:
        for block in row:
            block[generator.choice(places, 6, replace=False)] ^= 1
    return replace(one, shape=(VOCAB, HIDDEN), data=blocks.reshape(VOCAB, -1))


def _may_differ(row: Tensor, place: int) -> bool:
    """Whether that byte of a block holds neither a scale nor the first of 32 quants."""
    if any(offset <= place < offset + 2 for offset in SCALES_AT[row.format]):
        return False
    other = replace(row, data=row.data.copy())
    other.data.reshape(-1, row.format.block_bytes)[:, place] ^= 1
    differs = (dequantize(other) != dequantize(row)).reshape(-1, 32)
    return not differs[:, 0].any() and differs.any() and differs.sum() <= 2 * len(differs)


@pytest.mark.parametrize("format", [format for format in TensorFormat if format not in FLOATS])
def test_where_first_terms_mislead_the_choice_is_still_the_largest(
    format: TensorFormat, isa: str, one_sequence: OneSequence
) -> None:
    """One value of each block is so large that the first term tells next to nothing of the others."""
    generator = np.random.default_rng(format.value)
    norm = np.ones(HIDDEN)
    norm[::32] = 400.0
    checkpoint = with_tensors(with_head(near_ties(format, generator)), final_norm=floats(norm))
    outputs = assert_largest(NativeExecutor(checkpoint, num_blocks=3, isa=isa, num_threads=2), one_sequence)
    head = checkpoint.tensors["head.weight"]
    first_terms = np.empty((ROWS, VOCAB), dtype=np.float32)
    nothing = np.array([], dtype=np.int32)
    _native.linear_alone(isa, format.value, HIDDEN, head.data, outputs.hidden, nothing, first_terms)
    assert np.mean(first_terms.argmax(axis=1) != outputs.logits.argmax(axis=1)) > 0.2


@pytest.mark.parametrize("format", [TensorFormat.F32, TensorFormat.Q8_0, TensorFormat.Q4_1])
def test_among_equal_logits_the_lowest_id_is_chosen(
    format: TensorFormat, isa: str, one_sequence: OneSequence
) -> None:
    few = random_tensor(format, 37, HIDDEN, np.random.default_rng(5))
    head = replace(few, shape=(37 * 27, HIDDEN), data=np.tile(few.data, (27, 1)))
    outputs = assert_largest(
        NativeExecutor(with_head(head), num_blocks=3, isa=isa, num_threads=3), one_sequence
    )
    assert outputs.choices is not None and np.all(outputs.choices < 37)


@pytest.mark.parametrize("format", [TensorFormat.F32, TensorFormat.Q8_0])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_noticed_wherever_they_are(
    value: float, format: TensorFormat, isa: str, one_sequence: OneSequence
) -> None:
    """No logit is chosen beside one that is not a number, and none that is infinite; others are smaller."""
    for row in (3, VOCAB - 1):
        head = random_tensor(format, VOCAB, HIDDEN, np.random.default_rng(5))
        if format is TensorFormat.F32:
            weights = np.abs(head.data.view(np.float32).copy())
            weights[row, 7] = value
            head = replace(head, data=weights.view(np.uint8))
        else:
            head.data[row, :2] = np.array([value], dtype=np.float16).view(np.uint8)
        outputs = assert_largest(
            NativeExecutor(with_head(head), num_blocks=3, isa=isa, num_threads=2), one_sequence
        )
        chosen = outputs.logits[np.isfinite(outputs.logits.max(axis=1))]
        assert outputs.choices is not None
        assert np.count_nonzero(outputs.choices == -1) == ROWS - len(chosen) > 0


@pytest.mark.parametrize("format", [TensorFormat.F32, TensorFormat.Q8_0])
@pytest.mark.parametrize("size", [0.0, 1e-44, 1e-38, 1e20, 1e36, 3e38])
def test_activations_of_any_size_are_chosen_from(
    size: float, format: TensorFormat, isa: str, one_sequence: OneSequence
) -> None:
    head = random_tensor(format, VOCAB, HIDDEN, np.random.default_rng(5))
    checkpoint = with_tensors(with_head(head), final_norm=floats(np.full(HIDDEN, size)))
    assert_largest(NativeExecutor(checkpoint, num_blocks=3, isa=isa, num_threads=2), one_sequence)


@pytest.mark.parametrize("scale", [0.125, 1.7, 1e-45, 0.0, -0.5, np.inf, np.nan])
def test_logits_are_chosen_as_they_are_scaled(scale: float, isa: str, one_sequence: OneSequence) -> None:
    """Scaled by less than floats can tell, many are equal."""
    for format in (TensorFormat.F32, TensorFormat.Q8_0):
        checkpoint = with_head(random_tensor(format, VOCAB, HIDDEN, np.random.default_rng(5)))
        scaled = replace(checkpoint, spec=replace(checkpoint.spec, logit_scale=scale))
        assert_largest(NativeExecutor(scaled, num_blocks=3, isa=isa, num_threads=2), one_sequence)


@pytest.mark.parametrize(("scale", "size"), [(1e-5, 1e33), (1e-9, 1e35)])
def test_products_that_overflow_before_they_are_scaled_are_noticed(
    scale: float, size: float, isa: str, one_sequence: OneSequence
) -> None:
    head = random_tensor(TensorFormat.Q8_0, VOCAB, HIDDEN, np.random.default_rng(5))
    blocks = head.data.reshape(VOCAB, -1, TensorFormat.Q8_0.block_bytes)
    blocks[:, :, :2] = np.array([1e-7], dtype=np.float16).view(np.uint8)
    blocks[11, :, :2] = np.array([60000], dtype=np.float16).view(np.uint8)
    checkpoint = with_tensors(with_head(head), final_norm=floats(np.full(HIDDEN, size)))
    scaled = replace(checkpoint, spec=replace(checkpoint.spec, logit_scale=scale))
    outputs = assert_largest(NativeExecutor(scaled, num_blocks=3, isa=isa, num_threads=2), one_sequence)
    assert not np.isfinite(outputs.logits).all()


def test_rows_beyond_a_slab_are_chosen_for_too(kv_format: KvFormat, one_sequence: OneSequence) -> None:
    checkpoint = random_checkpoint(max_context=2048, num_layers=1, format=TensorFormat.Q8_0)
    token_ids = np.random.default_rng(4).integers(0, 256, 700).astype(np.int32)
    batch = one_sequence(token_ids, kv_format=kv_format)
    executor = NativeExecutor(checkpoint, num_blocks=50, kv_format=kv_format)
    outputs = executor.run(replace(batch, choice_rows=batch.logit_rows[::-1].copy()))
    assert outputs is not None and outputs.choices is not None
    np.testing.assert_array_equal(outputs.choices, choices_of(outputs.logits[::-1]))
    nothing = batch.logit_rows[:0]
    alone = executor.run(
        replace(batch, logit_rows=nothing, hidden_rows=nothing, choice_rows=batch.logit_rows)
    )
    assert alone is not None and alone.choices is not None
    np.testing.assert_array_equal(alone.choices, outputs.choices[::-1])


def test_choices_are_the_same_on_every_path(one_sequence: OneSequence) -> None:
    head = near_ties(TensorFormat.Q4_1, np.random.default_rng(6))
    found = [
        run_rows(
            NativeExecutor(with_head(head), num_blocks=3, isa=isa), one_sequence, np.arange(ROWS)
        ).choices
        for isa in available_isas()
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_a_choice_row_out_of_range_is_refused(one_sequence: OneSequence) -> None:
    executor = NativeExecutor(random_checkpoint(), num_blocks=3)
    with pytest.raises(ValueError, match=r"a choice row is 3..40, not within \[0, 40\)"):
        run_rows(executor, one_sequence, np.array([3, ROWS]))
