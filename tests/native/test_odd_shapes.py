"""Widths, vocabularies and batches that are no multiple of anything, and a context of 32k places."""

from collections.abc import Callable

import numpy as np
import pytest

from halfline.model.checkpoint import Checkpoint, TensorFormat
from halfline.model.executor import CAUSAL, Batch, Mask
from halfline.model.int8_kv import Int8KvReference
from halfline.model.kv_format import F16, KvFormat
from halfline.model.random_model import random_checkpoint
from halfline.model.reference import ReferenceExecutor, rotate
from halfline.native.executor import NativeExecutor, available_isas

TOLERANCE = 2e-3  # KV in float16


def assert_near(actual: np.ndarray, expected: np.ndarray) -> None:
    assert np.abs(actual - expected).max() < TOLERANCE * np.abs(expected).max()


def many_sequences(count: int, generator: np.random.Generator) -> Batch:
    """Of 1 to 5 tokens each, all from place 0; every row is wanted."""
    starts = np.concatenate(([0], np.cumsum(generator.integers(1, 6, count)))).astype(np.int32)
    rows = np.arange(starts[-1], dtype=np.int32)
    return Batch(
        token_ids=generator.integers(0, 259, starts[-1]).astype(np.int32),
        row_starts=starts,
        first_places=np.zeros(count, dtype=np.int32),
        block_tables=generator.permutation(64)[:count, None].astype(np.int32),
        masks=[CAUSAL] * count,
        logit_rows=rows,
        hidden_rows=rows,
    )


@pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
def test_up_to_64_sequences_at_once_follow_the_reference(head_dim: int, isa: str) -> None:
    checkpoint = random_checkpoint(
        hidden_size=72, ffn_size=104, vocab_size=259, num_heads=3, num_kv_heads=1, head_dim=head_dim
    )
    native = NativeExecutor(checkpoint, num_blocks=64, isa=isa, num_threads=2)
    reference = ReferenceExecutor(checkpoint, 64)
    for count in (1, 2, 5, 16, 33, 64):
        batch = many_sequences(count, np.random.default_rng(count))
        actual, expected = native.run(batch), reference.run(batch)
        assert actual is not None and expected is not None
        assert_near(actual.logits, expected.logits)
        assert_near(actual.hidden, expected.hidden)


@pytest.mark.parametrize(
    "format", [TensorFormat.BF16, TensorFormat.Q4_0, TensorFormat.Q4_1, TensorFormat.Q8_0]
)
def test_up_to_64_sequences_at_once_are_bitwise_what_each_is_alone_on_every_path(
    format: TensorFormat, one_sequence: Callable[..., Batch]
) -> None:
    checkpoint = random_checkpoint(
        hidden_size=96, ffn_size=160, vocab_size=259, num_heads=2, num_kv_heads=1, head_dim=80, format=format
    )
    paths = [NativeExecutor(checkpoint, num_blocks=64, isa=isa, num_threads=2) for isa in available_isas()]
    for count in (1, 3, 17, 64):
        batch = many_sequences(count, np.random.default_rng(count))
        found = [outputs.logits for native in paths if (outputs := native.run(batch)) is not None]
        assert len(found) == len(paths)
        for start, stop in zip(batch.row_starts, batch.row_starts[1:], strict=False):
            alone = paths[0].run(one_sequence(batch.token_ids[start:stop]))
            assert alone is not None
            for logits in found:
                np.testing.assert_array_equal(logits[start:stop], alone.logits)


def test_a_row_at_the_end_of_32k_places_follows_the_reference_on_every_path_and_for_every_cutting(
    kv_format: KvFormat, one_sequence: Callable[..., Batch]
) -> None:
    places = 32_768
    checkpoint = random_checkpoint(
        num_layers=1,
        hidden_size=48,
        ffn_size=72,
        num_heads=2,
        num_kv_heads=1,
        head_dim=32,
        max_context=places,
    )
    token_ids = np.random.default_rng(0).integers(0, 258, places).astype(np.int32)
    last_row = one_sequence(token_ids[-1:], places - 1, kv_format=kv_format)
    found = []
    for number, isa in enumerate(available_isas()):
        native = NativeExecutor(
            checkpoint, num_blocks=kv_format.num_blocks(places), isa=isa, num_threads=2, kv_format=kv_format
        )
        rows = 1024 - 5 * number
        # The KV of a single layer depends on its own token alone, so a narrow window writes the same, sooner.
        for first in range(0, places - 1, rows):
            last = min(first + rows, places - 1)
            native.run(one_sequence(token_ids[first:last], first, Mask(window=1), kv_format=kv_format))
        outputs = native.run(last_row)
        assert outputs is not None
        found.append(outputs.logits)
    for logits in found[1:]:
        np.testing.assert_array_equal(logits, found[0])
    expected = filled_reference(checkpoint, token_ids, kv_format).run(last_row)
    assert expected is not None
    assert_near(found[0], expected.logits)


def filled_reference(checkpoint: Checkpoint, token_ids: np.ndarray, kv_format: KvFormat) -> ReferenceExecutor:
    """With the KV of all tokens written, without anybody's attention computed."""
    places = len(token_ids)
    make = ReferenceExecutor if kv_format is F16 else Int8KvReference
    reference = make(checkpoint, kv_format.num_blocks(places))
    x = reference._norm("layers.0.attn_norm", reference._weight("embed.weight")[token_ids].astype(np.float64))
    heads = (places, checkpoint.spec.num_kv_heads, checkpoint.spec.head_dim)
    keys = rotate(
        reference._linear("layers.0.k", x).reshape(heads), np.arange(places), reference._frequencies
    )
    values = reference._linear("layers.0.v", x)
    for arena, written in ((reference._keys[0], keys), (reference._values[0], values)):
        blocks = written.reshape(-1, *arena.shape[1:])
        arena[: len(blocks)] = blocks
    return reference
