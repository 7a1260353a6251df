"""A step taken apart: the parts' work adds up, whatever the clock says."""

import numpy as np
import pytest

from halfline.bench.parts import decode_parts, prefill_blocks, prefill_parts
from halfline.bench.work import count
from halfline.model.checkpoint import TensorFormat
from halfline.model.executor import Batch, Outputs
from halfline.model.random_model import random_checkpoint
from halfline.native.executor import NativeExecutor


def test_the_parts_of_a_decode_step_do_its_work_but_for_the_attention_behind_one_block() -> None:
    checkpoint = random_checkpoint(format=TensorFormat.Q4_0)
    work = count(checkpoint)
    parts = decode_parts(NativeExecutor(checkpoint, num_blocks=8), work, depth=64, looks=2)
    assert [part.name for part in parts] == ["layers", "attention", "head", "whole step"]
    *inner, whole = parts
    left_out = work.attention(16 + 8, 1, 1)
    assert sum(part.work.num_bytes for part in inner) + left_out.num_bytes == pytest.approx(
        whole.work.num_bytes
    )
    assert sum(part.work.float_ops for part in inner) + left_out.float_ops == whole.work.float_ops
    assert whole.seconds is not None and whole.seconds > 0


def test_the_parts_of_a_prefill_do_its_work() -> None:
    checkpoint = random_checkpoint(format=TensorFormat.Q4_0)
    work = count(checkpoint)
    executor = NativeExecutor(checkpoint, num_blocks=prefill_blocks(128))
    layers, attention, whole = prefill_parts(executor, work, 128, looks=2)
    assert layers.work.int_ops + attention.work.int_ops == whole.work.int_ops
    assert layers.work.float_ops + attention.work.float_ops == whole.work.float_ops
    # Eight blocks: the first sees itself, the others itself and the one before it. Nothing but the very last row's
    # logits is wanted of the last layer.
    seen = 128 * 129 // 2 - (8 * 16 * 17 // 2 + 7 * 16 * 16)
    num_whole = work.spec.num_layers - 1
    assert attention.work.float_ops == 4 * work.spec.q_size * (num_whole * seen + 128 - 32)
    assert attention.work.num_bytes == 0


def watched(executor: NativeExecutor, monkeypatch: pytest.MonkeyPatch) -> list[Batch]:
    """The batches that the executor runs from now on."""
    batches: list[Batch] = []
    run = executor.run

    def keep(batch: Batch) -> Outputs | None:
        batches.append(batch)
        return run(batch)

    monkeypatch.setattr(executor, "run", keep)
    return batches


def places_of(batch: Batch) -> np.ndarray:
    lengths = np.diff(batch.row_starts)
    return np.concatenate(
        [first + np.arange(n) for first, n in zip(batch.first_places, lengths, strict=True)]
    )


def test_a_prefill_in_short_sequences_has_as_many_rows_at_first_places_and_only_sees_kv_that_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checkpoint = random_checkpoint(format=TensorFormat.Q4_0)
    executor = NativeExecutor(checkpoint, num_blocks=prefill_blocks(128))
    batches = watched(executor, monkeypatch)
    prefill_parts(executor, count(checkpoint), 128, looks=1)
    *fills, long, short = batches
    assert len(long.token_ids) == len(short.token_ids) == 128
    assert len(long.logit_rows) == len(short.logit_rows) == 1
    assert (places_of(long) < 16).sum() == (places_of(short) < 16).sum() == 16
    filled = {int(block) for batch in fills for block in batch.block_tables[:, 0]}
    assert filled == {int(table[0]) for table in short.block_tables}
    assert len({int(block) for block in short.block_tables.flat}) == short.block_tables.size


def test_every_row_of_a_shallow_and_a_deep_decode_step_lies_behind_the_first_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checkpoint = random_checkpoint(format=TensorFormat.Q4_0)
    executor = NativeExecutor(checkpoint, num_blocks=8)
    batches = watched(executor, monkeypatch)
    decode_parts(executor, count(checkpoint), depth=64, looks=1)
    _, *steps = batches
    assert min(batch.first_places[0] for batch in steps) == 16
