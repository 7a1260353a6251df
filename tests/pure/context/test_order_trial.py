"""The order is tried on the model itself, in bounded time, and the cheapest of the good ones is taken."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from halfline.context import order_trial
from halfline.context.order_trial import HOLES, MARGIN, try_orders
from halfline.engine.hash_executor import HashExecutor
from halfline.model.executor import Batch, Outputs
from halfline.model.random_model import byte_vocab
from halfline.text.infill import InfillFormat, InfillOrder, find_infill_format, usable_orders
from halfline.text.tokenizer import Tokenizer

PLAIN = byte_vocab(262)
PREFIX_ID, SUFFIX_ID, MIDDLE_ID = 258, 259, 260
TOKENIZER = Tokenizer(
    replace(
        PLAIN,
        tokens=(*PLAIN.tokens[:258], "<fim_prefix>", "<fim_suffix>", "<fim_middle>", PLAIN.tokens[261]),
        token_types=(*PLAIN.token_types[:258], 3, 3, 3, *PLAIN.token_types[261:]),
    )
)


def infill() -> InfillFormat:
    found = find_infill_format(TOKENIZER)
    assert found is not None
    return found


class Trained(HashExecutor):
    """Finds the right token as likely as the order of the prompt deserves; all others are alike."""

    def __init__(self, logits: dict[InfillOrder, float]) -> None:
        super().__init__(64, vocab_size=262)
        self._logits = logits
        self.num_runs = 0

    def run(self, batch: Batch) -> Outputs | None:
        self.num_runs += 1
        outputs = super().run(batch)
        assert outputs is not None
        tokens = batch.token_ids.tolist()
        outputs.logits[:] = 0.0
        right = [*tokens[1:], None]
        for row, place in enumerate(batch.logit_rows.tolist()):
            following = right[place]
            if following is None:  # the hole's last token is not in the batch: it is any of these
                following = next(
                    ord(h.middle[-1])
                    for h in HOLES
                    if bytes(t for t in tokens if t < 256).endswith(h.middle[:-1].encode())
                )
            outputs.logits[row, following] = self._logits[order_of(tokens)]
        return outputs


def order_of(tokens: list[int]) -> InfillOrder:
    markers = [token for token in tokens if token >= 258]
    if not markers:
        return "prefix_only"
    if markers == [PREFIX_ID, SUFFIX_ID, MIDDLE_ID]:
        if tokens[1] == SUFFIX_ID:
            return "spm"
        line_is_whole = chr(tokens[tokens.index(SUFFIX_ID) - 1]) == "\n"
        return "anchored" if line_is_whole else "psm"
    raise AssertionError(f"no prompt has the markers {markers}")


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        ({"psm": 9.0, "spm": 2.0, "anchored": 2.0, "prefix_only": 2.0}, "psm"),
        ({"psm": 9.0, "spm": 9.0, "anchored": 2.0, "prefix_only": 2.0}, "spm"),
        ({"psm": 9.0, "spm": 9.0, "anchored": 9.0, "prefix_only": 9.0}, "anchored"),
        ({"psm": 2.0, "spm": 2.0, "anchored": 2.0, "prefix_only": 9.0}, "prefix_only"),
    ],
)
def test_of_the_good_orders_the_one_that_types_cheapest_is_taken(
    logits: dict[InfillOrder, float], expected: InfillOrder
) -> None:
    trial = try_orders(Trained(logits), TOKENIZER, infill())
    assert trial.order == expected
    assert set(trial.logprobs) == set(usable_orders(infill()))
    assert trial.num_holes == len(HOLES)
    best = max(trial.logprobs, key=lambda order: trial.logprobs[order])
    assert trial.logprobs[trial.order] >= trial.logprobs[best] - MARGIN


def test_a_slow_model_is_tried_on_fewer_holes_and_never_on_none() -> None:
    executor = Trained(dict.fromkeys(usable_orders(infill()), 1.0))
    ticks = itertools.count(step=order_trial.BUDGET_S + 1)
    trial = try_orders(executor, TOKENIZER, infill(), clock=lambda: float(next(ticks)))
    assert trial.num_holes == 1
    assert executor.num_runs == len(trial.logprobs)


def test_a_model_that_overflows_is_an_error() -> None:
    class Overflowing(HashExecutor):
        def run(self, batch: Batch) -> Outputs | None:
            outputs = super().run(batch)
            assert outputs is not None
            outputs.logits[:] = np.nan
            return outputs

    with pytest.raises(FloatingPointError):
        try_orders(Overflowing(64, vocab_size=262), TOKENIZER, infill())
