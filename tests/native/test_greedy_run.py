"""Several greedy steps in one call, against as many calls of one step each."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from halfline.model.executor import CAUSAL, Batch, GreedyRun, Mask
from halfline.model.kv_format import F16, KvFormat
from halfline.model.random_model import MemoryCheckpoint, random_checkpoint
from halfline.model.reference import choices_of
from halfline.native.executor import NativeExecutor

NUM_BLOCKS = 8
TABLE = np.arange(NUM_BLOCKS, dtype=np.int32)[::-1].copy()
PROMPT = np.arange(13, dtype=np.int32)
COUNT = 40  # over two ends of blocks


def prompted(
    checkpoint: MemoryCheckpoint,
    one_sequence: Callable[..., Batch],
    *,
    kv_format: KvFormat = F16,
    isa: str | None = None,
    num_threads: int = 2,
    mask: Mask = CAUSAL,
) -> NativeExecutor:
    executor = NativeExecutor(
        checkpoint, num_blocks=NUM_BLOCKS, num_threads=num_threads, isa=isa, kv_format=kv_format
    )
    prompt = one_sequence(PROMPT, mask=mask, kv_format=kv_format)
    assert executor.run(replace(prompt, block_tables=TABLE[None])) is not None
    return executor


def single_steps(
    executor: NativeExecutor, one_sequence: Callable[..., Batch], run: GreedyRun, kv_format: KvFormat
) -> list[int]:
    ids = [run.token_id]
    for step in range(run.max_tokens):
        batch = one_sequence(np.array(ids[-1:]), run.place + step, run.mask, kv_format=kv_format)
        outputs = executor.run(replace(batch, block_tables=run.block_table[None]))
        assert outputs is not None
        ids.append(int(np.argmax(outputs.logits[0])))
    return ids[1:]


@pytest.mark.parametrize("mask", [CAUSAL, Mask(window=9, num_sinks=2)], ids=["causal", "banded"])
def test_a_run_gives_the_tokens_and_the_kv_of_single_steps(
    mask: Mask, isa: str, kv_format: KvFormat, one_sequence: Callable[..., Batch]
) -> None:
    checkpoint = random_checkpoint(vocab_size=1000)
    run = GreedyRun(5, len(PROMPT), TABLE, COUNT, mask=mask)
    one = prompted(checkpoint, one_sequence, kv_format=kv_format, isa=isa, mask=mask)
    many = prompted(checkpoint, one_sequence, kv_format=kv_format, isa=isa, num_threads=3, mask=mask)
    expected = single_steps(one, one_sequence, run, kv_format)
    assert len(set(expected)) > 3
    assert many.decode(run).tolist() == expected
    whole = TABLE[: kv_format.num_blocks(len(PROMPT) + COUNT)].tolist()
    np.testing.assert_array_equal(many.export_blocks(whole), one.export_blocks(whole))


def test_a_run_ends_with_the_first_token_that_ends_it(one_sequence: Callable[..., Batch]) -> None:
    executor = prompted(random_checkpoint(vocab_size=1000), one_sequence)
    run = GreedyRun(5, len(PROMPT), TABLE, COUNT)
    ids = executor.decode(run).tolist()
    end = ids[COUNT // 2]
    ended = executor.decode(replace(run, end_ids=(1001, end))).tolist()
    assert ended == ids[: ids.index(end) + 1]


def test_among_equal_logits_the_lower_id_is_chosen_whoever_found_it(
    one_sequence: Callable[..., Batch],
) -> None:
    checkpoint = random_checkpoint(vocab_size=400, tied=False)
    head = checkpoint.tensors["head.weight"]
    tensors = {**checkpoint.tensors, "head.weight": replace(head, data=np.tile(head.data[:40], (10, 1)))}
    executor = prompted(replace(checkpoint, tensors=tensors), one_sequence, num_threads=3)
    assert np.all(executor.decode(GreedyRun(5, len(PROMPT), TABLE, COUNT)) < 40)


def test_more_workers_than_there_are_logits_for_change_nothing(one_sequence: Callable[..., Batch]) -> None:
    checkpoint = random_checkpoint(vocab_size=37)
    run = GreedyRun(5, len(PROMPT), TABLE, 4)
    one, five = (prompted(checkpoint, one_sequence, num_threads=count) for count in (1, 5))
    np.testing.assert_array_equal(five.decode(run), one.decode(run))


def test_a_run_ends_before_a_row_without_a_largest_logit(
    isa: str, one_sequence: Callable[..., Batch]
) -> None:
    checkpoint = random_checkpoint(vocab_size=400, tied=False)
    head = checkpoint.tensors["head.weight"]
    data = head.data.copy()
    data[77] = np.full(64, 3e38, dtype=np.float32).view(np.uint8)
    broken = replace(checkpoint, tensors={**checkpoint.tensors, "head.weight": replace(head, data=data)})
    executor = prompted(broken, one_sequence, isa=isa)
    ends = []
    for token_id in range(12):
        batch = replace(one_sequence(np.array([token_id]), len(PROMPT)), block_tables=TABLE[None])
        outputs = executor.run(batch)
        assert outputs is not None and not np.isfinite(outputs.logits).all()
        choice = int(choices_of(outputs.logits)[0])
        ids = executor.decode(GreedyRun(token_id, len(PROMPT), TABLE, 1)).tolist()
        assert ids == ([] if choice == -1 else [choice])
        ends.append(choice == -1)
    assert 0 < sum(ends) < len(ends), "of one row the largest overflowed, of another one that nobody chooses"


def test_a_stopped_run_keeps_what_it_had(kv_format: KvFormat, one_sequence: Callable[..., Batch]) -> None:
    executor = prompted(random_checkpoint(vocab_size=1000), one_sequence, kv_format=kv_format)
    run = GreedyRun(5, len(PROMPT), TABLE, COUNT)
    executor.stop_flag.set()
    assert len(executor.decode(run)) == 0
    executor.stop_flag.clear()
    untouched = prompted(random_checkpoint(vocab_size=1000), one_sequence, kv_format=kv_format)
    np.testing.assert_array_equal(executor.decode(run), untouched.decode(run))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_tokens": 0}, "a run of 0 tokens"),
        ({"token_id": 1000}, "a token is 1000"),
        ({"max_tokens": 116}, r"spans places \[128, 129\) of 128"),
        ({"place": -1}, "spans places"),
        ({"block_table": np.array([0, NUM_BLOCKS], dtype=np.int32)}, "a block of sequence 0 is 0..8"),
    ],
)
def test_a_run_out_of_range_is_refused(
    changes: dict[str, object], message: str, one_sequence: Callable[..., Batch]
) -> None:
    executor = prompted(random_checkpoint(vocab_size=1000), one_sequence)
    run = GreedyRun(5, len(PROMPT), TABLE, 8)
    with pytest.raises(ValueError, match=message):
        executor.decode(replace(run, **changes))  # type: ignore[arg-type]
