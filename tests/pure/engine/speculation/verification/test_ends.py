"""A sequence that ends within a draft ends as it would without one, and nothing behind its end counts."""

from dataclasses import replace

import numpy as np
import pytest
from character_work import GREEDY, alone, ids, prompt_of, text, work
from guessers import GUESSERS, Guesser, Scripted, half_right, right
from stepped_engine import SteppedEngine

from halfline.engine.hash_executor import HashExecutor
from halfline.model.executor import Batch, Outputs
from halfline.model.reference import with_logits


@pytest.mark.parametrize("guess", GUESSERS)
def test_a_stop_token_inside_an_accepted_run_ends_the_sequence_there(guess: Guesser) -> None:
    prompt = prompt_of(20, seed=8)
    expected = alone(prompt, 20)
    engine = SteppedEngine(drafter=Scripted(guess))
    engine.add(0, work(prompt, 20, stop_token_ids=frozenset({expected[9].token_id})))
    engine.run()
    assert engine.tokens[0] == expected[:9]
    assert engine.outcomes[0].finish_reason == "stop"
    assert engine.outcomes[0].stats.num_generated == 10
    assert engine.outcomes[0].stats.num_computed == 20 + 9


def test_no_row_is_spent_on_what_could_only_come_after_the_end() -> None:
    prompt = prompt_of(20, seed=8)
    expected = ids(alone(prompt, 20))
    engine = SteppedEngine(drafter=Scripted(right))
    engine.add(0, work(prompt, 20, stop_token_ids=frozenset({expected[9]})))
    engine.run()
    assert [chunk.draft_ids for chunk in engine.plans[0].chunks] == [tuple(expected[:9])]


@pytest.mark.parametrize("guess", GUESSERS)
@pytest.mark.parametrize("num_shown", [3, 9])
def test_a_stop_string_inside_an_accepted_run_shows_nothing_behind_it(guess: Guesser, num_shown: int) -> None:
    prompt = prompt_of(20, seed=9)
    said = text(alone(prompt, 20))
    stop = said[num_shown : num_shown + 3]
    engine = SteppedEngine(drafter=Scripted(guess))
    engine.add(0, work(prompt, 20, replace(GREEDY, stop=(stop,))))
    engine.run()
    assert engine.texts[0] == said[: said.index(stop)]
    assert engine.outcomes[0].finish_reason == "stop"
    assert engine.outcomes[0].stats.num_generated == said.index(stop) + 3


class OverflowingAfter(HashExecutor):
    """From the `num_tokens`-th token of a sequence on, all logits are NaN."""

    def __init__(self, num_tokens: int) -> None:
        super().__init__(64)
        self._num_tokens = num_tokens

    def run(self, batch: Batch) -> Outputs | None:
        outputs = super().run(batch)
        assert outputs is not None and len(batch.first_places) == 1
        places = batch.first_places[0] + batch.logit_rows
        outputs.logits[places + 1 >= self._num_tokens] = np.nan
        return with_logits(outputs, outputs.logits)


@pytest.mark.parametrize("guess", GUESSERS)
def test_a_row_that_overflows_behind_the_end_of_the_sequence_is_nobodys_failure(guess: Guesser) -> None:
    prompt = prompt_of(20, seed=8)
    said = text(alone(prompt, 20))
    engine = SteppedEngine(OverflowingAfter(20 + 8), drafter=Scripted(guess))
    engine.add(0, work(prompt, 20, replace(GREEDY, stop=(said[5:8],))))
    engine.run()
    assert engine.outcomes[0].finish_reason == "stop"
    assert engine.texts[0] == said[:5]


@pytest.mark.parametrize("guess", GUESSERS)
def test_a_row_that_overflows_inside_a_run_fails_the_sequence_behind_the_same_tokens(guess: Guesser) -> None:
    prompt = prompt_of(20, seed=8)
    engine = SteppedEngine(OverflowingAfter(20 + 6), drafter=Scripted(guess))
    engine.add(0, work(prompt, 20))
    engine.run()
    assert engine.outcomes[0].finish_reason == "failed"
    assert engine.tokens[0] == alone(prompt, 6)


def test_a_stopped_step_with_drafts_counts_for_nothing_and_is_run_again() -> None:
    engine = SteppedEngine(drafter=Scripted(half_right))
    prompt = prompt_of(40, seed=0)
    engine.add(0, work(prompt, 20))
    engine.step()
    engine.stop_a_step()
    engine.run()
    assert engine.tokens[0] == alone(prompt, 20)
