"""Every rule of the scheduler's own books is broken once by hand, and its check notices."""

from collections.abc import Callable

import pytest
from character_work import prompt_of, work
from stepped_engine import SteppedEngine

from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.engine.scheduler import Scheduler
from halfline.errors import InvariantBroken

RUNS, WAITS = 0, 1


def let_one_that_waits_hold_blocks(scheduler: Scheduler) -> None:
    assert scheduler._by_id[WAITS].table.grow(16)
    scheduler._running.append(scheduler._by_id[WAITS])  # so that all that is held is somebody's


def let_one_that_waits_have_computed(scheduler: Scheduler) -> None:
    scheduler._by_id[WAITS].num_computed = 1


def hold_one_that_runs(scheduler: Scheduler) -> None:
    scheduler.hold(RUNS)


def forget_one_that_waits(scheduler: Scheduler) -> None:
    del scheduler._by_id[WAITS]


def queue_one_twice(scheduler: Scheduler) -> None:
    scheduler._waiting.append(scheduler._by_id[WAITS])


def compute_past_its_blocks(scheduler: Scheduler) -> None:
    scheduler._by_id[RUNS].num_computed = 1000


FAULTS: dict[Callable[[Scheduler], None], str] = {
    let_one_that_waits_hold_blocks: "a waiting sequence holds blocks",
    let_one_that_waits_have_computed: "a waiting sequence holds blocks",
    hold_one_that_runs: "are on hold, and not all of them wait",
    forget_one_that_waits: "are known, .* are queued",
    queue_one_twice: "are known, .* are queued",
    compute_past_its_blocks: "computed past its blocks",
}


@pytest.mark.parametrize(("fault", "said"), FAULTS.items(), ids=[fault.__name__ for fault in FAULTS])
def test_check_notices(fault: Callable[[Scheduler], None], said: str) -> None:
    engine = SteppedEngine(HashExecutor(64), EngineOptions(step_tokens=64, max_num_seqs=1))
    for number in (RUNS, WAITS):
        engine.add(number, work(prompt_of(20, seed=number), 4))
    engine.step()
    engine.scheduler.check()
    fault(engine.scheduler)
    with pytest.raises(InvariantBroken, match=said):
        engine.scheduler.check()
