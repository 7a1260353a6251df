"""Bytes and operations of a step, counted by hand."""

from dataclasses import replace

import numpy as np
import pytest
from random_tensor import random_tensor

from halfline.bench.limits import Limits
from halfline.bench.work import Work, count, main_format
from halfline.bench.workloads import Sizes
from halfline.model.checkpoint import TensorFormat
from halfline.model.random_model import random_checkpoint

# hidden 64, 4 query and 2 KV heads of 16, ffn 128: weights of one layer.
LAYER_WEIGHTS = 64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 64 * 128
KV_WEIGHTS = 2 * 32 * 64
HEAD_WEIGHTS = 258 * 64


def limits(**rates: float) -> Limits:
    given = {"read_near": 1.0, "int8_block": 1.0, "fma": 1.0, **rates}
    return Limits(num_threads=1, near_bytes=1, read_near_one=1.0, read_far=1.0, int8=1.0, **given)


def test_every_weight_is_read_once_however_many_rows_there_are() -> None:
    work = count(random_checkpoint(format=TensorFormat.Q4_0))
    assert work.layers(1, 1).num_bytes == work.layers(7, 7).num_bytes == 2 * LAYER_WEIGHTS * 18 / 32
    assert work.layers(7, 7).int_ops == 7 * 2 * 2 * LAYER_WEIGHTS
    assert work.head.work(1).num_bytes == HEAD_WEIGHTS * 18 / 32
    assert work.head.work(0) == Work()


def test_a_row_of_which_nothing_is_wanted_needs_a_key_and_a_value_of_the_last_layer() -> None:
    work = count(random_checkpoint(format=TensorFormat.Q4_0))
    assert work.layers(7, 2).int_ops == 2 * (
        7 * (LAYER_WEIGHTS + KV_WEIGHTS) + 2 * (LAYER_WEIGHTS - KV_WEIGHTS)
    )
    assert work.layers(7, 2).num_bytes == work.layers(7, 7).num_bytes
    assert work.layers(7, 0).num_bytes == (LAYER_WEIGHTS + KV_WEIGHTS) * 18 / 32
    assert work.attention(10, 3, 1) == Work(2 * 13 * 2 * 32 * 2, 0, 4 * 64 * (11 + 12 + 13 + 13))
    assert work.attention(10, 3, 0) == Work(13 * 2 * 32 * 2, 0, 4 * 64 * (11 + 12 + 13))
    one, two = work.step([(0, 9), (5, 1)], 1), work.step([(0, 9), (5, 1)], 2)
    assert one + work.head.work(1) == two + Work(
        work.head.num_bytes - 9 * 2 * 32 * 2, -2 * (LAYER_WEIGHTS - KV_WEIGHTS), -4 * 64 * 9
    )


def test_float_weights_count_as_float_operations() -> None:
    work = count(random_checkpoint(format=TensorFormat.F16))
    assert work.layers(3, 3) == Work(2 * LAYER_WEIGHTS * 2, 0, 3 * 2 * 2 * LAYER_WEIGHTS)


@pytest.mark.parametrize(
    "format", [TensorFormat.Q4_1, TensorFormat.Q5_1, TensorFormat.Q4_K, TensorFormat.Q5_K]
)
def test_a_minimum_costs_one_multiply_add_per_block_of_32_and_row(format: TensorFormat) -> None:
    checkpoint = random_checkpoint(hidden_size=256, ffn_size=256)
    generator = np.random.default_rng(0)
    matrices = {
        name: random_tensor(format, tensor.shape[0], tensor.shape[1], generator)
        for name, tensor in checkpoint.tensors.items()
        if len(tensor.shape) == 2
    }
    work = count(replace(checkpoint, tensors={**checkpoint.tensors, **matrices}))
    assert work.layers(3, 2).int_ops == 32 * work.layers(3, 2).float_ops > 0
    assert work.head.work(3).float_ops == 3 * 2 * 258 * 256 / 32


def test_formats_without_minima_cost_no_float_operation() -> None:
    for format in (TensorFormat.Q4_0, TensorFormat.Q8_0):
        assert count(random_checkpoint(format=format)).layers(3, 3).float_ops == 0


def test_an_untied_head_is_read_and_its_embedding_is_not() -> None:
    untied = count(random_checkpoint(tied=False, format=TensorFormat.Q8_0))
    assert untied.step([(0, 1)], 1).num_bytes == pytest.approx(
        (2 * LAYER_WEIGHTS + HEAD_WEIGHTS) * 34 / 32 + untied.attention(0, 1, 1).num_bytes
    )


def test_attention_sees_the_context_and_half_of_what_is_new() -> None:
    work = count(random_checkpoint())
    # Rows at places 10, 11 and 12 see 11, 12 and 13; 13 places of K and V are read in each of 2 layers.
    assert work.attention(10, 3, 3) == Work(2 * 13 * 2 * 32 * 2, 0, 4 * 64 * 2 * (11 + 12 + 13))


def test_sixteen_sequences_share_the_weights_and_not_the_kv() -> None:
    work = count(random_checkpoint())
    one, many = work.step([(128, 1)], 1), work.step([(128, 1)] * 16, 16)
    assert many.num_bytes - one.num_bytes == 15 * work.attention(128, 1, 1).num_bytes
    assert many.float_ops == 16 * one.float_ops


def test_kv_is_counted_in_whole_blocks() -> None:
    work = count(random_checkpoint())
    assert work.kv_bytes(17) == work.kv_bytes(32) == 2 * work.kv_bytes(16) == 2 * 16 * 2 * 32 * 2 * 2


def test_the_least_time_is_the_longer_of_reading_and_computing() -> None:
    work = Work(num_bytes=100.0, int_ops=30.0, float_ops=10.0)
    assert work.least_seconds(limits(read_near=10.0)) == 40.0  # 100 / 10 against 30 + 10
    assert work.least_seconds(limits(read_near=2.0)) == 50.0
    assert work.least_seconds(limits(read_near=1e9, int8_block=10.0, fma=5.0)) == 5.0


def test_the_main_format_is_the_one_most_bytes_are_in() -> None:
    assert main_format(random_checkpoint(format=TensorFormat.Q4_1)) == "Q4_1"


def test_the_places_that_are_needed_hold_the_largest_workload() -> None:
    assert Sizes().num_places == 16 * 160
    assert Sizes(sequences=1).num_places == 576
    assert Sizes(sequences=2, sequence_depth=300, sequence_decode=1).num_places == 2 * 304
