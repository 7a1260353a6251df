"""A row's result is bitwise the same whoever shares its batch and however its sequence was cut."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from halfline.model.checkpoint import TensorFormat
from halfline.model.executor import BLOCK_TOKENS, CAUSAL, Batch, Mask
from halfline.model.kv_format import KvFormat
from halfline.model.random_model import MemoryCheckpoint, random_checkpoint
from halfline.native.executor import NativeExecutor, available_isas

LENGTH, NUM_BLOCKS = 90, 64
MASKS = [CAUSAL, Mask(window=21, num_sinks=4)]
FORMATS = [TensorFormat.F32, TensorFormat.F16, TensorFormat.Q4_1, TensorFormat.Q8_0]
BLOCKS = range(-(-LENGTH // BLOCK_TOKENS))

Results = tuple[np.ndarray, np.ndarray, np.ndarray]


def model(format: TensorFormat) -> MemoryCheckpoint:
    return random_checkpoint(format=format, num_heads=4, num_kv_heads=2, head_dim=32, sliding_window=40)


def tokens() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, LENGTH).astype(np.int32)


def in_chunks(
    executor: NativeExecutor, chunk: int, mask: Mask, one_sequence: Callable[..., Batch]
) -> Results:
    """Logits, hidden states and the KV of the written places."""
    outputs = [
        executor.run(one_sequence(tokens()[start : start + chunk], start, mask, kv_format=executor.kv_format))
        for start in range(0, LENGTH, chunk)
    ]
    done = [output for output in outputs if output is not None]
    assert len(done) == len(outputs)
    return (
        np.concatenate([output.logits for output in done]),
        np.concatenate([output.hidden for output in done]),
        written_kv(executor),
    )


def written_kv(executor: NativeExecutor) -> np.ndarray:
    """Of the sequence in the first blocks; an open block only where it is one like others."""
    if executor.kv_format.shares_open_blocks:
        return executor.export_blocks(BLOCKS)
    return executor.export_blocks(BLOCKS[:-1])


def assert_same(actual: Results, expected: Results) -> None:
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("format", FORMATS)
def test_every_chunk_size_gives_the_same_bits(
    format: TensorFormat, mask: Mask, isa: str, kv_format: KvFormat, one_sequence: Callable[..., Batch]
) -> None:
    checkpoint = model(format)
    whole = in_chunks(
        NativeExecutor(checkpoint, num_blocks=NUM_BLOCKS, isa=isa, kv_format=kv_format),
        LENGTH,
        mask,
        one_sequence,
    )
    for chunk in range(1, 34):
        executor = NativeExecutor(
            checkpoint, num_blocks=NUM_BLOCKS, isa=isa, num_threads=1 + chunk % 2, kv_format=kv_format
        )
        assert_same(in_chunks(executor, chunk, mask, one_sequence), whole)


@pytest.mark.parametrize("format", FORMATS)
def test_every_instruction_path_and_thread_count_gives_the_same_bits(
    format: TensorFormat, kv_format: KvFormat, one_sequence: Callable[..., Batch]
) -> None:
    checkpoint = model(format)
    results = [
        in_chunks(
            NativeExecutor(
                checkpoint, num_blocks=NUM_BLOCKS, isa=isa, num_threads=threads, kv_format=kv_format
            ),
            32,
            CAUSAL,
            one_sequence,
        )
        for isa in available_isas()
        for threads in (1, 2, 3)
    ]
    for other in results[1:]:
        assert_same(other, results[0])


@pytest.mark.parametrize("format", FORMATS)
def test_seven_random_mates_change_no_bit(
    format: TensorFormat, isa: str, kv_format: KvFormat, one_sequence: Callable[..., Batch]
) -> None:
    checkpoint = model(format)
    alone, _, kv = in_chunks(
        NativeExecutor(checkpoint, num_blocks=NUM_BLOCKS, isa=isa, kv_format=kv_format),
        LENGTH,
        CAUSAL,
        one_sequence,
    )
    generator = np.random.default_rng(8)
    executor = NativeExecutor(checkpoint, num_blocks=NUM_BLOCKS, isa=isa, num_threads=2, kv_format=kv_format)
    place = 0
    while place < LENGTH:
        ours = min(int(generator.integers(1, 24)), LENGTH - place)
        lengths = [int(generator.integers(1, 20)) for _ in range(7)]
        at = int(generator.integers(0, 8))
        lengths.insert(at, ours)
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        token_ids = generator.integers(0, 256, starts[-1]).astype(np.int32)
        token_ids[starts[at] : starts[at + 1]] = tokens()[place : place + ours]
        first_places = generator.integers(0, 60, 8).astype(np.int32)
        first_places[at] = place
        # Mates share blocks 7.. with each other, which is nonsense for them and nothing to us.
        tables = generator.integers(7, NUM_BLOCKS, (8, 7)).astype(np.int32)
        tables[at] = np.arange(7)
        masks = [MASKS[int(generator.integers(0, 2))] for _ in range(8)]
        masks[at] = CAUSAL
        output = executor.run(
            Batch(
                token_ids=token_ids,
                row_starts=starts,
                first_places=first_places,
                block_tables=tables,
                masks=masks,
                logit_rows=np.arange(starts[at], starts[at + 1], dtype=np.int32),
                hidden_rows=np.array([], dtype=np.int32),
            )
        )
        assert output is not None
        np.testing.assert_array_equal(output.logits, alone[place : place + ours])
        place += ours
    np.testing.assert_array_equal(written_kv(executor), kv)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("format", FORMATS)
def test_what_is_wanted_of_other_rows_changes_no_bit(
    format: TensorFormat, mask: Mask, isa: str, kv_format: KvFormat, one_sequence: Callable[..., Batch]
) -> None:
    """The last layer leaves out rows of which nothing is wanted, except their KV."""
    checkpoint = model(format)
    logits, hidden, kv = in_chunks(
        NativeExecutor(checkpoint, num_blocks=NUM_BLOCKS, isa=isa, kv_format=kv_format),
        LENGTH,
        mask,
        one_sequence,
    )
    generator = np.random.default_rng(2)
    few = [np.flatnonzero(generator.random(LENGTH) < share) for share in (0.02, 0.05, 0.1, 0.3)]
    for number, wanted in enumerate([*few, np.array([LENGTH - 1]), np.array([5, 20, 21, 38]), few[0][:0]]):
        by_kind = generator.integers(0, 3, len(wanted))  # logits, hidden state, both
        executor = NativeExecutor(
            checkpoint, num_blocks=NUM_BLOCKS, isa=isa, num_threads=1 + number % 3, kv_format=kv_format
        )
        outputs = executor.run(
            replace(
                one_sequence(tokens(), 0, mask, kv_format=kv_format),
                logit_rows=wanted[by_kind != 1].astype(np.int32),
                hidden_rows=wanted[by_kind != 0][::-1].astype(np.int32),
            )
        )
        assert outputs is not None
        np.testing.assert_array_equal(outputs.logits, logits[wanted[by_kind != 1]])
        np.testing.assert_array_equal(outputs.hidden, hidden[wanted[by_kind != 0][::-1]])
        np.testing.assert_array_equal(written_kv(executor), kv)


@pytest.mark.parametrize("chunk", [1, 2, 7])
@pytest.mark.parametrize("format", FORMATS)
def test_steps_of_which_nothing_is_wanted_leave_the_same_kv(
    format: TensorFormat, chunk: int, isa: str, kv_format: KvFormat, one_sequence: Callable[..., Batch]
) -> None:
    checkpoint = model(format)
    executors = [
        NativeExecutor(checkpoint, num_blocks=NUM_BLOCKS, isa=isa, num_threads=threads, kv_format=kv_format)
        for threads in (1, 2)
    ]
    logits, _, kv = in_chunks(executors[0], chunk, CAUSAL, one_sequence)
    nothing = np.array([], dtype=np.int32)
    for start in range(0, LENGTH - 1, chunk):
        stop = min(start + chunk, LENGTH - 1)
        batch = one_sequence(tokens()[start:stop], start, kv_format=kv_format)
        assert executors[1].run(replace(batch, logit_rows=nothing, hidden_rows=nothing)) is not None
    last = executors[1].run(one_sequence(tokens()[-1:], LENGTH - 1, kv_format=kv_format))
    assert last is not None
    np.testing.assert_array_equal(last.logits[0], logits[-1])
    np.testing.assert_array_equal(written_kv(executors[1]), kv)


def test_more_rows_than_a_slab_give_the_same_bits(
    kv_format: KvFormat, one_sequence: Callable[..., Batch]
) -> None:
    checkpoint = random_checkpoint(max_context=2048, num_layers=1, format=TensorFormat.Q4_0)
    token_ids = np.random.default_rng(4).integers(0, 256, 1100).astype(np.int32)
    at_once = NativeExecutor(checkpoint, num_blocks=70, kv_format=kv_format).run(
        one_sequence(token_ids, kv_format=kv_format)
    )
    executor = NativeExecutor(checkpoint, num_blocks=70, kv_format=kv_format)
    halves = [
        executor.run(one_sequence(token_ids[start : start + 550], start, kv_format=kv_format))
        for start in (0, 550)
    ]
    assert at_once is not None and halves[0] is not None and halves[1] is not None
    np.testing.assert_array_equal(np.concatenate([half.logits for half in halves if half]), at_once.logits)
    wanted = np.array([1099, 3, 505, 511, 512, 600], dtype=np.int32)
    few = executor.run(
        replace(one_sequence(token_ids, kv_format=kv_format), logit_rows=wanted, hidden_rows=wanted[:0])
    )
    assert few is not None
    np.testing.assert_array_equal(few.logits, at_once.logits[wanted])


@pytest.mark.parametrize("mask", MASKS)
def test_what_was_never_written_is_never_read(
    mask: Mask, isa: str, kv_format: KvFormat, one_sequence: Callable[..., Batch]
) -> None:
    """The arena is filled with NaN first: one touched slot would show in the logits."""
    checkpoint = model(TensorFormat.Q4_1)
    clean = NativeExecutor(checkpoint, num_blocks=NUM_BLOCKS, isa=isa, kv_format=kv_format)
    poisoned = NativeExecutor(checkpoint, num_blocks=NUM_BLOCKS, isa=isa, kv_format=kv_format)
    poisoned.import_blocks(
        range(NUM_BLOCKS), np.full((NUM_BLOCKS, poisoned.block_bytes), 0xFF, dtype=np.uint8)
    )
    for chunk in (1, 13):
        expected = in_chunks(clean, chunk, mask, one_sequence)[0]
        np.testing.assert_array_equal(in_chunks(poisoned, chunk, mask, one_sequence)[0], expected)
