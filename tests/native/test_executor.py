"""The executor's other promises: stopping, blocks, and refusing what is inconsistent."""

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from halfline.errors import DamagedModel, UnsupportedModel
from halfline.model.executor import Batch
from halfline.model.kv_format import INT8, KvFormat
from halfline.model.random_model import MemoryCheckpoint, random_checkpoint
from halfline.native.executor import NativeExecutor

TOKENS = np.arange(40, dtype=np.int32)


@pytest.fixture
def executor() -> NativeExecutor:
    return NativeExecutor(random_checkpoint(), num_blocks=8, num_threads=2)


def test_a_flag_set_before_the_run_stops_it_until_cleared(
    executor: NativeExecutor, one_sequence: Callable[..., Batch]
) -> None:
    expected = executor.run(one_sequence(TOKENS))
    executor.stop_flag.set()
    assert executor.run(one_sequence(TOKENS)) is None
    assert executor.run(one_sequence(TOKENS)) is None
    executor.stop_flag.clear()
    again = executor.run(one_sequence(TOKENS))
    assert again is not None and expected is not None
    np.testing.assert_array_equal(again.logits, expected.logits)


def test_a_flag_set_from_another_thread_ends_a_running_step(one_sequence: Callable[..., Batch]) -> None:
    checkpoint = random_checkpoint(num_layers=40, hidden_size=256, ffn_size=1024, max_context=2048)
    executor = NativeExecutor(checkpoint, num_blocks=128, num_threads=2)
    batch = one_sequence(np.zeros(2000, dtype=np.int32))
    began = time.perf_counter()
    expected = executor.run(batch)
    whole_s = time.perf_counter() - began

    timer = threading.Timer(whole_s / 10, executor.stop_flag.set)
    timer.start()
    began = time.perf_counter()
    assert executor.run(batch) is None
    assert time.perf_counter() - began < whole_s * 0.8
    timer.join()
    executor.stop_flag.clear()
    again = executor.run(batch)
    assert again is not None and expected is not None
    np.testing.assert_array_equal(again.logits, expected.logits)


def test_a_stopped_step_leaves_an_open_block_as_it_was(
    kv_format: KvFormat, one_sequence: Callable[..., Batch]
) -> None:
    """Places 16 to 28 were there before; the layers that were done had filled their block already."""
    checkpoint = random_checkpoint(num_layers=40, hidden_size=128, ffn_size=512, max_context=2048)
    token_ids = np.arange(1000, dtype=np.int32) % 256
    beginning = one_sequence(token_ids[:29], kv_format=kv_format)
    rest = one_sequence(token_ids[29:], 29, kv_format=kv_format)
    undisturbed, stopped = (
        NativeExecutor(checkpoint, num_blocks=65, num_threads=2, kv_format=kv_format) for _ in range(2)
    )
    undisturbed.run(beginning)
    began = time.perf_counter()
    expected = undisturbed.run(rest)
    whole_s = time.perf_counter() - began

    stopped.run(beginning)
    timer = threading.Timer(whole_s / 3, stopped.stop_flag.set)
    timer.start()
    assert stopped.run(rest) is None
    timer.join()
    stopped.stop_flag.clear()
    again = stopped.run(rest)
    assert again is not None and expected is not None
    np.testing.assert_array_equal(again.logits, expected.logits)


def test_copied_and_imported_blocks_continue_a_sequence_bitwise(
    kv_format: KvFormat, one_sequence: Callable[..., Batch]
) -> None:
    executor = NativeExecutor(random_checkpoint(), num_blocks=10, num_threads=2, kv_format=kv_format)
    known = TOKENS if kv_format.shares_open_blocks else TOKENS[:32]
    executor.run(one_sequence(known, kv_format=kv_format))
    full_or_open = range(-(-len(known) // 16))
    executor.copy_blocks(full_or_open, [each + 5 for each in full_or_open])
    other = NativeExecutor(random_checkpoint(), num_blocks=4, num_threads=1, kv_format=kv_format)
    other.import_blocks(full_or_open, executor.export_blocks([each + 5 for each in full_or_open]))
    place = len(known)
    expected = executor.run(one_sequence(TOKENS[:1], place, kv_format=kv_format))
    copied = executor.run(one_sequence(TOKENS[:1], place, first_block=5, kv_format=kv_format))
    imported = other.run(one_sequence(TOKENS[:1], place, kv_format=kv_format))
    assert expected is not None and copied is not None and imported is not None
    np.testing.assert_array_equal(copied.logits, expected.logits)
    np.testing.assert_array_equal(imported.logits, expected.logits)


def test_an_inconsistent_batch_is_refused_by_name(
    executor: NativeExecutor, one_sequence: Callable[..., Batch]
) -> None:
    with pytest.raises(ValueError, match="token"):
        executor.run(one_sequence(np.array([258])))
    with pytest.raises(ValueError, match="block"):
        executor.run(one_sequence(TOKENS, first_block=6))
    with pytest.raises(ValueError, match="block 8 "):
        executor.copy_blocks([8], [0])
    with pytest.raises(ValueError, match="2 source blocks and 1 target"):
        executor.copy_blocks([0, 1], [0])
    with pytest.raises(ValueError, match="block -1 "):
        executor.export_blocks([-1])
    with pytest.raises(ValueError, match="1 blocks need uint8"):
        executor.import_blocks([0], np.zeros((1, 5), dtype=np.uint8))


def test_an_open_block_of_int8_needs_the_block_behind_it(one_sequence: Callable[..., Batch]) -> None:
    executor = NativeExecutor(random_checkpoint(), num_blocks=8, kv_format=INT8)
    executor.run(one_sequence(TOKENS[:32]))
    with pytest.raises(ValueError, match=r"places \[0, 33\)"):
        executor.run(one_sequence(TOKENS[:33]))
    executor.run(one_sequence(TOKENS[:33], kv_format=INT8))
    with pytest.raises(ValueError, match=r"places \[33, 48\)"):  # it reads what was behind the open one
        executor.run(one_sequence(np.arange(15, dtype=np.int32), 33))


def test_what_it_cannot_run_is_refused_at_load() -> None:
    with pytest.raises(UnsupportedModel, match="multiple of 16"):
        NativeExecutor(random_checkpoint(head_dim=20), num_blocks=1)
    with pytest.raises(ValueError, match="sse9"):
        NativeExecutor(random_checkpoint(), num_blocks=1, isa="sse9")
    with pytest.raises(ValueError, match="at least 1"):
        NativeExecutor(random_checkpoint(), num_blocks=0)
    whole = random_checkpoint()
    tensors = {name: tensor for name, tensor in whole.tensors.items() if name != "layers.1.down.weight"}
    with pytest.raises(DamagedModel, match=r"layers\.1\.down\.weight"):
        NativeExecutor(MemoryCheckpoint(whole.spec, whole.vocab, tensors), num_blocks=1)
