"""Whole models on the CPU executor against the float64 reference: families, shapes, formats.

The reference keeps its KV in float16 here, as the executor does. A key or value on the edge between two float16 numbers
may still fall either way, which is what the tolerance of the float formats is: a float16 step is 5e-4.
"""

from dataclasses import replace

import numpy as np
import pytest
from random_layers import random_layers
from random_tensor import FLOATS, random_tensor

from halfline.model.checkpoint import Checkpoint, TensorFormat
from halfline.model.executor import CAUSAL, Batch, Mask, Outputs
from halfline.model.int8_kv import Int8KvReference
from halfline.model.kv_format import INT8
from halfline.model.random_model import random_checkpoint
from halfline.model.reference import Array, ReferenceExecutor
from halfline.model.spec import LinearScaling, Llama3Scaling
from halfline.native.executor import NativeExecutor

NUM_BLOCKS = 16


class HalfKvReference(ReferenceExecutor):
    """The reference with KV kept as float16, as the CPU executor keeps it."""

    def __init__(self, checkpoint: Checkpoint, num_blocks: int) -> None:
        super().__init__(checkpoint, num_blocks)
        self._keys = self._keys.astype(np.float16)  # type: ignore[assignment]
        self._values = self._values.astype(np.float16)  # type: ignore[assignment]


@pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
def test_int8_kv_follows_its_specification(head_dim: int, isa: str) -> None:
    """A number on the edge between two int8 values may fall either way: a few rows are a little off.

    With scales of another kind, or KV not rounded at all, the mean would be ten times as far.
    """
    checkpoint = random_checkpoint(
        head_dim=head_dim,
        num_heads=3,
        num_kv_heads=1,
        sliding_window=37,
        max_context=512,
    )
    token_ids = np.random.default_rng(5).integers(0, 258, 200).astype(np.int32)
    native = NativeExecutor(checkpoint, num_blocks=20, isa=isa, num_threads=2, kv_format=INT8)
    reference = Int8KvReference(checkpoint, 20)
    for mask in (CAUSAL, Mask(window=50, num_sinks=3), Mask(prefix=100)):
        differences = []
        for first, stop in ((0, 130), (130, 197), (197, 198), (198, 200)):
            rows = np.arange(stop - first, dtype=np.int32)
            batch = Batch(
                token_ids=token_ids[first:stop],
                row_starts=np.array([0, len(rows)], dtype=np.int32),
                first_places=np.array([first], dtype=np.int32),
                block_tables=np.arange(20, dtype=np.int32)[None],
                masks=[mask],
                logit_rows=rows,
                hidden_rows=rows,
            )
            actual, expected = native.run(batch), reference.run(batch)
            assert actual is not None and expected is not None
            assert relative_error(actual.logits, expected.logits) < 2e-2
            differences.append(np.abs(actual.logits - expected.logits) / np.abs(expected.logits).max())
        assert np.concatenate(differences).mean() < 5e-4


class Int8Reference(HalfKvReference):
    """... and with the inputs of quantised matrices rounded to int8 per 32 values.

    In two terms where the CPU executor does so: places 0..15 everywhere, and every row of the head.
    """

    def run(self, batch: Batch) -> Outputs | None:
        counts = np.diff(batch.row_starts)
        self._places = np.concatenate(
            [first + np.arange(n) for first, n in zip(batch.first_places, counts, strict=True)]
        )
        return super().run(batch)

    def _linear(self, name: str, x: Array) -> Array:
        first = rounded_to_int8(x)
        rest = rounded_to_int8(x - first)
        if name not in ("head", "embed"):
            rest[self._places >= 16] = 0.0
        return super()._linear(name, first + rest)


def rounded_to_int8(x: Array) -> Array:
    blocks = x.reshape(len(x), -1, 32)
    scales = np.maximum(np.abs(blocks).max(axis=2, keepdims=True), 1e-30) / 127
    rounded: Array = (np.rint(blocks / scales) * scales).reshape(x.shape)
    return rounded


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


def three_sequences(generator: np.random.Generator, masks: tuple[Mask, Mask, Mask]) -> Batch:
    """5, 1 and 37 rows, all from place 0."""
    return Batch(
        token_ids=generator.integers(0, 258, 43).astype(np.int32),
        row_starts=np.array([0, 5, 6, 43], dtype=np.int32),
        first_places=np.zeros(3, dtype=np.int32),
        block_tables=np.array([[7, 0, 0], [2, 0, 0], [9, 3, 11]], dtype=np.int32),
        masks=masks,
        logit_rows=np.array([42, 0, 5, 4, 20], dtype=np.int32),
        hidden_rows=np.array([1, 41], dtype=np.int32),
    )


def assert_close(checkpoint: Checkpoint, reference: ReferenceExecutor, isa: str, tolerance: float) -> None:
    executor = NativeExecutor(checkpoint, num_blocks=NUM_BLOCKS, isa=isa, num_threads=2)
    for masks in (
        (CAUSAL,) * 3,
        (Mask(window=3), Mask(window=1), Mask(window=7, num_sinks=2)),
        (Mask(prefix=5), CAUSAL, Mask(prefix=20)),
    ):
        batch = three_sequences(np.random.default_rng(5), masks)
        actual, expected = executor.run(batch), reference.run(batch)
        assert actual is not None and expected is not None
        assert relative_error(actual.logits, expected.logits) < tolerance
        assert relative_error(actual.hidden, expected.hidden) < tolerance


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3", "starcoder2", "granite"])
def test_every_family_follows_the_reference(family: str, isa: str) -> None:
    checkpoint = random_checkpoint(family=family, tied=family != "qwen2", sliding_window=11)  # type: ignore[arg-type]
    assert_close(checkpoint, HalfKvReference(checkpoint, NUM_BLOCKS), isa, 5e-4)


@pytest.mark.parametrize("head_dim", [16, 32, 64, 80, 96, 128, 256])
@pytest.mark.parametrize("num_heads, num_kv_heads", [(3, 3), (6, 2), (7, 1)])
def test_every_head_size_and_group_follows_the_reference(
    head_dim: int, num_heads: int, num_kv_heads: int, isa: str
) -> None:
    checkpoint = random_checkpoint(
        hidden_size=48,
        ffn_size=72,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        num_layers=1,
    )
    assert_close(checkpoint, HalfKvReference(checkpoint, NUM_BLOCKS), isa, 5e-4)


@pytest.mark.parametrize("scaling", [LinearScaling(4.0), Llama3Scaling(8.0, 1.0, 4.0, 64)])
def test_scaled_rotations_follow_the_reference(scaling: LinearScaling | Llama3Scaling, isa: str) -> None:
    checkpoint = random_checkpoint(rope_scaling=scaling)
    assert_close(checkpoint, HalfKvReference(checkpoint, NUM_BLOCKS), isa, 5e-4)


@pytest.mark.parametrize("format", [TensorFormat.F16, TensorFormat.BF16])
def test_half_precision_weights_follow_the_reference(format: TensorFormat, isa: str) -> None:
    checkpoint = random_checkpoint(format=format)
    assert_close(checkpoint, HalfKvReference(checkpoint, NUM_BLOCKS), isa, 5e-4)


@pytest.mark.parametrize("family", ["llama", "qwen2", "starcoder2", "granite"])
@pytest.mark.parametrize("format", [TensorFormat.Q4_0, TensorFormat.Q4_1, TensorFormat.Q8_0])
def test_quantised_weights_follow_the_reference_with_int8_inputs(
    format: TensorFormat, family: str, isa: str
) -> None:
    """With biases, or residuals that are scaled, too.

    An input on the edge between two int8 values may fall either way, which is worth up to 1/127 of it; few do. Half of
    all logits are nearer than a second term that is left out or scaled otherwise would let them be.
    """
    checkpoint = random_checkpoint(format=format, tied=False, family=family)  # type: ignore[arg-type]
    assert_close_with_int8_inputs(checkpoint, isa)


@pytest.mark.parametrize(
    "format",
    [TensorFormat.Q5_0, TensorFormat.Q5_1, TensorFormat.Q4_K, TensorFormat.Q5_K, TensorFormat.Q6_K],
)
def test_layers_of_formats_that_are_only_read_follow_the_reference_with_int8_inputs(
    format: TensorFormat, isa: str
) -> None:
    assert_close_with_int8_inputs(random_layers(format), isa)


def assert_close_with_int8_inputs(checkpoint: Checkpoint, isa: str) -> None:
    assert_close(checkpoint, Int8Reference(checkpoint, NUM_BLOCKS), isa, 2e-2)
    batch = three_sequences(np.random.default_rng(5), (CAUSAL,) * 3)
    actual = NativeExecutor(checkpoint, num_blocks=NUM_BLOCKS, isa=isa).run(batch)
    expected = Int8Reference(checkpoint, NUM_BLOCKS).run(batch)
    assert actual is not None and expected is not None
    differences = np.abs(actual.logits - expected.logits)
    assert np.median(differences) < 1e-4 * np.abs(expected.logits).max()


class RoundedHeadReference(HalfKvReference):
    """... and with the head's inputs alone in int8, in two terms."""

    def _linear(self, name: str, x: Array) -> Array:
        if name not in ("head", "embed"):
            return super()._linear(name, x)
        first = rounded_to_int8(x)
        return super()._linear(name, first + rounded_to_int8(x - first))


@pytest.mark.parametrize("format", [format for format in TensorFormat if format not in FLOATS])
def test_embeddings_of_every_quantised_format_are_looked_up_and_multiplied_with(
    format: TensorFormat, isa: str
) -> None:
    checkpoint = random_checkpoint(hidden_size=256, ffn_size=64, num_layers=1)
    table = random_tensor(format, 258, 256, np.random.default_rng(format.value))
    tensors = {**checkpoint.tensors, "embed.weight": replace(table, name="embed.weight")}
    checkpoint = replace(checkpoint, tensors=tensors)
    assert_close(checkpoint, RoundedHeadReference(checkpoint, NUM_BLOCKS), isa, 5e-4)
