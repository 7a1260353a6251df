"""The specification itself: masks against their definition, and the many ways to cut one computation into steps."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from halfline.model.checkpoint import TensorFormat
from halfline.model.executor import BLOCK_TOKENS, CAUSAL, Batch, Executor, Mask, Outputs
from halfline.model.random_model import MemoryCheckpoint, random_checkpoint
from halfline.model.reference import ReferenceExecutor, sees, top_logits, visibility
from halfline.model.spec import Family

FAMILIES: list[Family] = ["llama", "mistral", "qwen2", "qwen3", "starcoder2", "granite"]
WINDOWED = Mask(window=5, num_sinks=2)


def batch_of(
    *sequences: tuple[Sequence[int], int, Sequence[int], Mask], logit_rows: Sequence[int] | None = None
) -> Batch:
    """Each sequence is (token ids, first place, block table, mask); every row's logits and states are wanted."""
    lengths = [len(token_ids) for token_ids, _, _, _ in sequences]
    max_blocks = max(len(table) for _, _, table, _ in sequences)
    rows = (
        np.arange(sum(lengths), dtype=np.int32)
        if logit_rows is None
        else np.array(logit_rows, dtype=np.int32)
    )
    return Batch(
        token_ids=np.concatenate([np.array(token_ids, dtype=np.int32) for token_ids, _, _, _ in sequences]),
        row_starts=np.cumsum([0, *lengths]).astype(np.int32),
        first_places=np.array([first for _, first, _, _ in sequences], dtype=np.int32),
        block_tables=np.array(
            [[*table, *[0] * (max_blocks - len(table))] for _, _, table, _ in sequences], dtype=np.int32
        ),
        masks=[mask for _, _, _, mask in sequences],
        logit_rows=rows,
        hidden_rows=rows,
    )


def run(executor: Executor, *sequences: Any, **options: Any) -> Outputs:
    outputs = executor.run(batch_of(*sequences, **options))
    assert outputs is not None
    return outputs


def tokens(count: int, seed: int = 0) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, 258, count)]


def in_steps(
    checkpoint: MemoryCheckpoint, token_ids: list[int], lengths: Sequence[int], mask: Mask
) -> NDArray[np.float32]:
    executor = ReferenceExecutor(checkpoint, num_blocks=8)
    table, first, logits = [5, 1, 3, 0], 0, []
    for length in lengths:
        logits.append(run(executor, (token_ids[first : first + length], first, table, mask)).logits)
        first += length
    return np.concatenate(logits)


@pytest.mark.parametrize("layer_window", [None, 1, 3, 20])
@pytest.mark.parametrize(
    "mask",
    [CAUSAL]
    + [Mask(window=window, num_sinks=sinks) for window in (1, 2, 5, 20) for sinks in (0, 1, 3)]
    + [Mask(prefix=prefix) for prefix in (1, 4, 12)],
    ids=str,
)
def test_visibility_is_its_definition_at_every_pair_of_places(mask: Mask, layer_window: int | None) -> None:
    for first, stop in itertools.combinations(range(13), 2):
        places, earlier = np.arange(first, stop), np.arange(stop)
        dense = visibility(mask, layer_window, places, earlier)
        assert dense.shape == (stop - first, stop)
        for i, j in itertools.product(places.tolist(), earlier.tolist()):
            expected = sees(mask, i, j) and (layer_window is None or i - j < layer_window)
            assert dense[i - first, j] == expected, (i, j)


def test_the_three_masks_drawn() -> None:
    def drawn(mask: Mask) -> list[str]:
        return ["".join(".x"[sees(mask, i, j)] for j in range(6)) for i in range(6)]

    assert drawn(CAUSAL) == ["x.....", "xx....", "xxx...", "xxxx..", "xxxxx.", "xxxxxx"]
    assert drawn(Mask(window=2, num_sinks=1)) == ["x.....", "xx....", "xxx...", "x.xx..", "x..xx.", "x...xx"]
    assert drawn(Mask(prefix=3)) == ["xxx...", "xxx...", "xxx...", "xxxx..", "xxxxx.", "xxxxxx"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("mask", [CAUSAL, WINDOWED, Mask(prefix=20)], ids=str)
@pytest.mark.parametrize("lengths", [(20, 20), (20, 1, 19), (20, *[1] * 20), (33, 7)], ids=str)
def test_steps_of_any_length_give_the_logits_of_one_step(
    family: Family, mask: Mask, lengths: Sequence[int]
) -> None:
    checkpoint = random_checkpoint(family=family, sliding_window=9)
    token_ids = tokens(40)
    whole = in_steps(checkpoint, token_ids, [40], mask)
    np.testing.assert_allclose(in_steps(checkpoint, token_ids, lengths, mask), whole, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mask", [CAUSAL, WINDOWED], ids=str)
def test_token_by_token_is_the_same_as_at_once(mask: Mask) -> None:
    checkpoint = random_checkpoint(format=TensorFormat.Q4_1)
    token_ids = tokens(40)
    whole = in_steps(checkpoint, token_ids, [40], mask)
    np.testing.assert_allclose(in_steps(checkpoint, token_ids, [1] * 40, mask), whole, rtol=1e-6, atol=1e-6)


def test_sequences_of_one_batch_do_not_meet() -> None:
    checkpoint = random_checkpoint()
    one, two, three = tokens(20, 1), tokens(1, 2), tokens(5, 3)
    together = ReferenceExecutor(checkpoint, num_blocks=8)
    run(together, (tokens(17, 4), 0, [6, 7], WINDOWED))
    found = run(
        together, (one, 0, [2, 0], CAUSAL), (two, 17, [6, 7], WINDOWED), (three, 0, [4], Mask(prefix=5))
    )
    alone = ReferenceExecutor(checkpoint, num_blocks=8)
    run(alone, (tokens(17, 4), 0, [6, 7], WINDOWED))
    expected = [
        run(alone, (one, 0, [1, 3], CAUSAL)),
        run(alone, (two, 17, [6, 7], WINDOWED)),
        run(alone, (three, 0, [5], Mask(prefix=5))),
    ]
    np.testing.assert_allclose(found.logits, np.concatenate([part.logits for part in expected]), rtol=1e-6)
    np.testing.assert_allclose(found.hidden, np.concatenate([part.hidden for part in expected]), rtol=1e-6)


def test_what_a_window_hides_has_no_influence() -> None:
    checkpoint = random_checkpoint(num_layers=1)
    mask = Mask(window=4, num_sinks=1)
    other_middle = [*tokens(1), *tokens(8, 5), *tokens(20)[9:]]
    kept = in_steps(checkpoint, tokens(20), [20], mask)
    changed = in_steps(checkpoint, other_middle, [20], mask)
    assert np.abs(kept[11] - changed[11]).max() > 1e-3  # still sees place 8
    np.testing.assert_array_equal(kept[12:], changed[12:])


def test_a_models_own_window_holds_only_in_its_sliding_layers() -> None:
    checkpoint = random_checkpoint(num_layers=1, sliding_window=4)
    full = replace(checkpoint, spec=replace(checkpoint.spec, sliding_layers=(False,)))
    plain = replace(checkpoint, spec=replace(checkpoint.spec, sliding_window=None))
    windowed = in_steps(checkpoint, tokens(20), [20], CAUSAL)
    unlimited = in_steps(plain, tokens(20), [20], CAUSAL)
    np.testing.assert_array_equal(in_steps(full, tokens(20), [20], CAUSAL), unlimited)
    np.testing.assert_array_equal(windowed, in_steps(plain, tokens(20), [20], Mask(window=4)))
    assert np.abs(windowed[10] - unlimited[10]).max() > 1e-3


def test_only_the_rows_asked_for_come_back_in_the_order_asked() -> None:
    checkpoint = random_checkpoint()
    every = run(ReferenceExecutor(checkpoint, 4), (tokens(9), 0, [0], CAUSAL))
    some = run(ReferenceExecutor(checkpoint, 4), (tokens(9), 0, [0], CAUSAL), logit_rows=[8, 2, 2])
    np.testing.assert_allclose(some.logits, every.logits[[8, 2, 2]], rtol=1e-6)
    assert some.hidden.shape == (3, 64)


def test_the_largest_logits_come_with_the_rows_when_asked_for() -> None:
    executor = ReferenceExecutor(random_checkpoint(), 2)
    batch = batch_of((tokens(9), 0, [0], CAUSAL))
    outputs, without = executor.run(replace(batch, top_k=3)), executor.run(batch)
    assert outputs is not None and outputs.top is not None and without is not None
    assert without.top is None
    np.testing.assert_array_equal(outputs.top.ids[:, 0], outputs.logits.argmax(axis=1))
    assert np.all(np.diff(outputs.top.logits, axis=1) <= 0)
    assert np.sum(outputs.logits >= outputs.top.logits[:, 2:]) == 3 * 9
    np.testing.assert_allclose(
        outputs.top.log_totals, np.log(np.exp(outputs.logits.astype(np.float64)).sum(axis=1)), rtol=1e-12
    )


def test_equal_logits_are_ordered_by_id_and_overflow_shows() -> None:
    logits = np.array([[1, 3, 3, 2, 3], [0, np.inf, 0, 0, 0]], dtype=np.float32)
    with np.errstate(invalid="ignore"):
        top = top_logits(logits, 4)
    assert top.ids[0].tolist() == [1, 2, 4, 3]
    assert np.isnan(top.log_totals).tolist() == [False, True]


def test_copied_and_imported_blocks_continue_a_sequence() -> None:
    checkpoint = random_checkpoint()
    executor, other = ReferenceExecutor(checkpoint, 8), ReferenceExecutor(checkpoint, 8)
    token_ids = tokens(20)
    run(executor, (token_ids[:19], 0, [0, 1], CAUSAL))
    expected = run(executor, (token_ids[19:], 19, [0, 1], CAUSAL)).logits
    executor.copy_blocks([0, 1], [6, 3])
    exported = executor.export_blocks([6, 3])
    assert exported.dtype == np.uint8
    assert exported.shape == (
        2,
        2 * 2 * BLOCK_TOKENS * 2 * 16 * 8,
    )  # k and v, layers, places, kv heads, head, bytes
    other.import_blocks([2, 5], exported)
    np.testing.assert_array_equal(run(executor, (token_ids[19:], 19, [6, 3], CAUSAL)).logits, expected)
    np.testing.assert_array_equal(run(other, (token_ids[19:], 19, [2, 5], CAUSAL)).logits, expected)


def test_a_set_stop_flag_ends_a_step_until_it_is_cleared() -> None:
    executor = ReferenceExecutor(random_checkpoint(), 4)
    executor.stop_flag.set()
    assert executor.run(batch_of((tokens(3), 0, [0], CAUSAL))) is None
    executor.stop_flag.clear()
    assert executor.run(batch_of((tokens(3), 0, [0], CAUSAL))) is not None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"token_ids": [0, 258, 1]}, "token"),
        ({"token_ids": [0, -1, 1]}, "token"),
        ({"row_starts": [0, 2]}, "row starts"),
        ({"row_starts": [1, 3]}, "row starts"),
        ({"row_starts": [0, 0, 3]}, "row start"),
        ({"first_places": [-1]}, "places"),
        ({"first_places": [14]}, "places"),
        ({"block_tables": [[4]]}, "block of sequence 0"),
        ({"block_tables": [[-1]]}, "block of sequence 0"),
        ({"block_tables": [[0], [0]]}, "block tables"),
        ({"logit_rows": [3]}, "logit row"),
        ({"hidden_rows": [-1]}, "hidden row"),
    ],
    ids=str,
)
def test_an_inconsistent_batch_is_refused(changes: dict[str, Any], reason: str) -> None:
    batch = batch_of((tokens(3), 0, [0], CAUSAL))
    damaged = replace(batch, **{name: np.array(value, dtype=np.int32) for name, value in changes.items()})
    with pytest.raises(ValueError, match=reason):
        ReferenceExecutor(random_checkpoint(), 4).run(damaged)


@pytest.mark.parametrize(
    ("mask", "first"),
    [
        (Mask(window=0), 0),
        (Mask(window=2, prefix=2), 0),
        (Mask(num_sinks=-1), 0),
        (Mask(prefix=4), 0),
        (Mask(prefix=4), 2),
    ],
    ids=str,
)
def test_an_impossible_mask_is_refused(mask: Mask, first: int) -> None:
    with pytest.raises(ValueError, match=r"window|sinks|prefix"):
        ReferenceExecutor(random_checkpoint(), 4).run(batch_of((tokens(3), first, [0], mask)))


def test_places_past_the_models_context_are_refused() -> None:
    executor = ReferenceExecutor(random_checkpoint(max_context=16), 4)
    with pytest.raises(ValueError, match=r"places \[14, 17\) of 16"):
        executor.run(batch_of((tokens(3), 14, [0, 1], CAUSAL)))
