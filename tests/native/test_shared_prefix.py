"""Sequences that begin with the same blocks read those together, and each gets what it gets alone."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from halfline.model.checkpoint import TensorFormat
from halfline.model.executor import BLOCK_TOKENS, CAUSAL, Batch, Mask
from halfline.model.kv_format import KvFormat
from halfline.model.random_model import random_checkpoint
from halfline.native.executor import NativeExecutor

# Sequences by the number of blocks of one long text they begin with; behind these each goes on in blocks of its own.
SHARED_BLOCKS = [20, 12, 12, 3, 4, 20, 0, 13]
FIRST_OWN = 20
OWN_BLOCKS = 6


def step(
    branches: Sequence[int], num_rows: Sequence[int], num_before: Sequence[int], masks: Sequence[Mask]
) -> Batch:
    """Rows of the branches, each `num_before` places behind what it shares; all logits are wanted."""
    generator = np.random.default_rng(7)
    texts = generator.integers(0, 256, (len(SHARED_BLOCKS), OWN_BLOCKS * BLOCK_TOKENS)).astype(np.int32)
    starts = np.concatenate(([0], np.cumsum(num_rows))).astype(np.int32)
    tables = np.zeros((len(branches), FIRST_OWN + OWN_BLOCKS), np.int32)
    for index, branch in enumerate(branches):
        shared = SHARED_BLOCKS[branch]
        tables[index, :shared] = np.arange(shared)
        own = FIRST_OWN + branch * OWN_BLOCKS + np.arange(OWN_BLOCKS)
        tables[index, shared : shared + OWN_BLOCKS] = own
    rows = zip(branches, num_before, num_rows, strict=True)
    return Batch(
        token_ids=np.concatenate([texts[branch, before : before + count] for branch, before, count in rows]),
        row_starts=starts,
        first_places=np.array([SHARED_BLOCKS[branch] * BLOCK_TOKENS for branch in branches], np.int32)
        + np.array(num_before, np.int32),
        block_tables=tables,
        masks=masks,
        logit_rows=np.arange(starts[-1], dtype=np.int32),
        hidden_rows=np.array([], np.int32),
    )


@pytest.mark.parametrize("sliding_window", [None, 100])
@pytest.mark.parametrize("num_heads, num_kv_heads", [(3, 1), (4, 4), (7, 1)])
def test_branches_of_a_text_get_the_same_bits_together_and_alone(
    num_heads: int,
    num_kv_heads: int,
    sliding_window: int | None,
    isa: str,
    kv_format: KvFormat,
    one_sequence: Callable[..., Batch],
) -> None:
    checkpoint = random_checkpoint(
        format=TensorFormat.Q8_0,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=32,
        max_context=512,
        sliding_window=sliding_window,
    )
    text = np.random.default_rng(1).integers(0, 256, 20 * BLOCK_TOKENS).astype(np.int32)
    branches = range(len(SHARED_BLOCKS))
    masks = [Mask(window=50, num_sinks=3) if branch == 5 else CAUSAL for branch in branches]
    num_blocks = FIRST_OWN + len(SHARED_BLOCKS) * OWN_BLOCKS

    def executor(num_threads: int) -> NativeExecutor:
        made = NativeExecutor(
            checkpoint, num_blocks=num_blocks, isa=isa, num_threads=num_threads, kv_format=kv_format
        )
        made.run(one_sequence(text, kv_format=kv_format))
        return made

    alone, together, others = executor(1), executor(2), executor(3)
    done = [0] * len(branches)
    # A prompt's rows, guesses, single rows; some close a block, some open one.
    for counts in ([20, 9, 1, 31, 7, 3, 15, 16], [1] * 8, [5, 1, 14, 1, 17, 1, 3, 1], [2] * 8):
        outputs = [
            alone.run(step([branch], [counts[branch]], [done[branch]], [masks[branch]]))
            for branch in branches
        ]
        expected = np.concatenate([each.logits for each in outputs if each is not None])
        for executor_of_all in (together, others):
            at_once = executor_of_all.run(step(branches, counts, done, masks))
            assert at_once is not None
            np.testing.assert_array_equal(at_once.logits, expected)
        done = [before + count for before, count in zip(done, counts, strict=True)]
