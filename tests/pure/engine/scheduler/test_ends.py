"""A sequence that ends by what its rows say, or from outside, leaves nothing held and nobody else changed."""

from collections.abc import Callable

import numpy as np
import pytest
from character_work import alone, prompt_of, work
from stepped_engine import SteppedEngine

from halfline.engine.hash_executor import HashExecutor
from halfline.errors import InvariantBroken
from halfline.model.executor import Batch, Outputs
from halfline.model.reference import with_logits


class OverflowingFirst(HashExecutor):
    """One logit of each step's first row is NaN."""

    def run(self, batch: Batch) -> Outputs | None:
        outputs = super().run(batch)
        assert outputs is not None
        outputs.logits[:1, 7] = np.nan
        return with_logits(outputs, outputs.logits)


def test_a_model_that_overflows_on_one_sequence_fails_that_one_alone() -> None:
    engine = SteppedEngine(OverflowingFirst(64))
    other = prompt_of(20, seed=2)
    engine.add(0, work(prompt_of(10, seed=1), 3))
    engine.add(1, work(other, 1))
    engine.run()
    assert engine.outcomes[0].finish_reason == "failed"
    assert engine.outcomes[0].failure is not None
    assert engine.tokens == {0: [], 1: alone(other, 1)}


def in_queue(engine: SteppedEngine) -> None:
    for number in range(1, 9):
        engine.add(number, work(prompt_of(6, seed=number), 1))
    engine.add(0, work(prompt_of(80, seed=0), 9))
    assert engine.scheduler.stats().num_running == 0


def in_prefill(engine: SteppedEngine) -> None:
    engine.add(0, work(prompt_of(80, seed=0), 9))
    engine.step()
    assert not engine.tokens[0]


def in_decode(engine: SteppedEngine) -> None:
    in_prefill(engine)
    engine.step()
    engine.step()
    assert engine.tokens[0]


@pytest.mark.parametrize("reach", [in_queue, in_prefill, in_decode])
def test_cancelling_frees_the_blocks_at_once_wherever_the_sequence_is(
    reach: Callable[[SteppedEngine], None],
) -> None:
    engine = SteppedEngine()
    reach(engine)
    engine.cancel(0)
    assert engine.outcomes[0].finish_reason == "cancelled"
    assert engine.pool.num_held == 0
    engine.cancel(0)
    engine.run()


def test_blocks_do_not_go_back_while_a_step_writes_to_them() -> None:
    engine = SteppedEngine()
    engine.add(0, work(prompt_of(40, seed=0)))
    engine.scheduler.plan(0.0)
    with pytest.raises(InvariantBroken, match="a step is writing"):
        engine.scheduler.end([0], "cancelled", 0.0)
