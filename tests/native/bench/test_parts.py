"""A step taken apart: the parts' work adds up, whatever the clock says."""

import pytest

from halfline.bench.parts import decode_parts, prefill_parts
from halfline.bench.work import count
from halfline.model.checkpoint import TensorFormat
from halfline.model.random_model import random_checkpoint
from halfline.native.executor import NativeExecutor


def test_the_parts_of_a_decode_step_do_its_work_but_for_the_attention_near_place_zero() -> None:
    checkpoint = random_checkpoint(format=TensorFormat.Q4_0)
    work = count(checkpoint)
    parts = decode_parts(NativeExecutor(checkpoint, num_blocks=8), work, depth=64, looks=2)
    assert [part.name for part in parts] == ["layers", "attention", "head", "whole step"]
    *inner, whole = parts
    left_out = work.attention(8, 1)
    assert sum(part.work.num_bytes for part in inner) + left_out.num_bytes == pytest.approx(
        whole.work.num_bytes
    )
    assert sum(part.work.float_ops for part in inner) + left_out.float_ops == whole.work.float_ops
    assert whole.seconds is not None and whole.seconds > 0


def test_the_parts_of_a_prefill_do_its_work_and_the_short_sequences_logits() -> None:
    checkpoint = random_checkpoint(format=TensorFormat.Q4_0)
    work = count(checkpoint)
    layers, attention, whole = prefill_parts(NativeExecutor(checkpoint, num_blocks=8), work, 128, looks=2)
    assert layers.work.float_ops + attention.work.float_ops == whole.work.float_ops
    assert layers.work.int_ops - whole.work.int_ops == 7 * work.head.int_ops_per_row
