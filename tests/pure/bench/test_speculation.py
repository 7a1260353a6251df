"""Gains are summed times over summed times; both sides take turns and are held to the same tokens."""

import itertools

import pytest

from halfline.bench.speculation import Compared, Item, SidesDisagree, Speculating, Turn, summarize
from halfline.engine.hash_executor import HashExecutor
from halfline.model.executor import Batch, Outputs
from halfline.model.random_model import byte_vocab
from halfline.model.reference import with_logits
from halfline.request import SamplingParams
from halfline.text.tokenizer import Tokenizer

ITEMS = [
    Item(name=f"item {number}", prompt=f"some text {number}", max_new_tokens=6, params=SamplingParams())
    for number in range(4)
]


def test_a_gain_is_of_summed_times_and_its_spread_over_the_items() -> None:
    compared = [
        Compared(f"item {number}", Turn(ms, 10, 10, 0, 0), Turn(10.0, 10, 5, 20, 5))
        for number, ms in enumerate([9.0, 10.0, 20.0, 41.0])
    ]
    gain = summarize(compared)
    assert (gain.num_items, gain.num_tokens) == (4, 40)
    assert (gain.ratio, gain.median, gain.p10) == (2.0, 2.0, 0.9)
    assert (gain.acceptance, gain.tokens_per_step, gain.plain_ms_per_token) == (0.25, 2.0, 2.0)


def test_both_sides_generate_from_the_same_computed_prompt() -> None:
    batches: list[int] = []
    executor = HashExecutor(64, before_run=lambda batch: batches.append(len(batch.token_ids)))
    ticks = itertools.count()
    compared = Speculating(executor, Tokenizer(byte_vocab()), lambda: next(ticks) * 1e-3).compare(ITEMS)
    assert [each.item for each in compared] == [item.name for item in ITEMS]
    for each in compared:
        assert each.plain.num_tokens == each.drafted.num_tokens
        assert each.plain.num_steps == each.plain.num_tokens
        assert each.drafted.num_steps == each.drafted.num_tokens - each.drafted.num_accepted
        assert each.plain.num_drafted == 0
        assert each.plain.ms > 0
    assert batches[0] > 1 and batches[1] == 1, "the prompt is computed before the clock runs"


def test_sides_that_disagree_are_no_result() -> None:
    class Forgetful(HashExecutor):
        """Says something else in every later run."""

        def __init__(self) -> None:
            super().__init__(64)
            self._num_runs = 0

        def run(self, batch: Batch) -> Outputs | None:
            outputs = super().run(batch)
            assert outputs is not None
            self._num_runs += 1
            outputs.logits[:, self._num_runs] += 100.0
            return with_logits(outputs, outputs.logits)

    with pytest.raises(SidesDisagree, match="item 0"):
        Speculating(Forgetful(), Tokenizer(byte_vocab())).compare(ITEMS)
