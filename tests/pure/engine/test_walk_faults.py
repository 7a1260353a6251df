"""Each thing that happens in the walk is done wrong once, and the walk notices."""

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Series
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_walk import Walk
from engine_world import ChainExecutor
from numpy.typing import NDArray
from pytest import MonkeyPatch

from halfline.engine.loop import EngineLoop
from halfline.engine.plan import Plan
from halfline.engine.scheduler import Scheduler
from halfline.engine.sequence import Progress, Sequence
from halfline.errors import InvariantBroken
from halfline.kv.block_table import BlockTable
from halfline.kv.disk_tier import DiskTier
from halfline.kv.pins import Pins
from halfline.kv.prefix_index import Node, PrefixIndex
from halfline.request import FinishReason


def keep_the_blocks_of_the_superseded(patch: MonkeyPatch) -> None:
    end = Scheduler._end

    def forgetful(
        self: Scheduler, sequence: Sequence, reason: FinishReason, *args: Any, **rest: Any
    ) -> Progress:
        if reason == "superseded":
            sequence.table = BlockTable(self._pool, self._index, sequence.work.namespace, self._kv_format)
            sequence.num_computed = 0
        return end(self, sequence, reason, *args, **rest)

    patch.setattr(Scheduler, "_end", forgetful)


def let_the_superseded_go_on(patch: MonkeyPatch) -> None:
    cancel = EngineLoop.cancel

    def deaf(self: EngineLoop, sequence_ids: Iterable[int], reason: FinishReason = "cancelled") -> None:
        if reason != "superseded":
            cancel(self, sequence_ids, reason)

    patch.setattr(EngineLoop, "cancel", deaf)


def say_cancelled_to_the_superseded(patch: MonkeyPatch) -> None:
    cancel = EngineLoop.cancel
    patch.setattr(EngineLoop, "cancel", lambda self, ids, reason: cancel(self, ids))


def forget_the_last_token_of_the_preempted(patch: MonkeyPatch) -> None:
    preempt = Scheduler._preempt

    def lossy(self: Scheduler, sequence: Sequence) -> None:
        preempt(self, sequence)
        if sequence.num_generated:
            sequence.token_ids.pop()

    patch.setattr(Scheduler, "_preempt", lossy)


def count_what_the_preempted_had_computed(patch: MonkeyPatch) -> None:
    preempt = Scheduler._preempt

    def proud(self: Scheduler, sequence: Sequence) -> None:
        num_computed = sequence.num_computed
        preempt(self, sequence)
        sequence.num_computed = num_computed

    patch.setattr(Scheduler, "_preempt", proud)


def score_the_preempted_again(patch: MonkeyPatch) -> None:
    preempt = Scheduler._preempt

    def twice(self: Scheduler, sequence: Sequence) -> None:
        preempt(self, sequence)
        sequence.num_scored = sequence.work.scores_from - 1

    patch.setattr(Scheduler, "_preempt", twice)


def count_a_stopped_step(patch: MonkeyPatch) -> None:
    abandon = Scheduler.abandon

    def counting(self: Scheduler) -> None:
        assert self._in_flight is not None
        for chunk in self._in_flight.chunks:
            chunk.sequence.num_computed = min(chunk.stop, len(chunk.sequence.token_ids) - 1)
        abandon(self)

    patch.setattr(Scheduler, "abandon", counting)


def tell_nobody_that_the_loop_broke(patch: MonkeyPatch) -> None:
    patch.setattr(Scheduler, "give_up", lambda self, now: [])


def forget_the_inbox_of_a_broken_loop(patch: MonkeyPatch) -> None:
    fail = EngineLoop._fail

    def hasty(self: EngineLoop, error: Exception) -> None:
        while not self._inbox.empty():
            self._inbox.get()
        fail(self, error)

    patch.setattr(EngineLoop, "_fail", hasty)


def leave_the_door_of_a_broken_loop_open(patch: MonkeyPatch) -> None:
    fail = EngineLoop._fail

    def open_(self: EngineLoop, error: Exception) -> None:
        fail(self, error)
        self._closed_by = None

    patch.setattr(EngineLoop, "_fail", open_)


def keep_on_hold_who_left(patch: MonkeyPatch) -> None:
    end = Scheduler._end

    def holding(self: Scheduler, sequence: Sequence, *args: Any, **rest: Any) -> Progress:
        on_hold = sequence.id in self._on_hold
        progress = end(self, sequence, *args, **rest)
        if on_hold:
            self._on_hold.add(sequence.id)
        return progress

    patch.setattr(Scheduler, "_end", holding)


def never_let_go_of_who_waits_for_the_disk(patch: MonkeyPatch) -> None:
    patch.setattr(DiskTier, "land", lambda self, now: set())


def swap_the_blocks_that_come_from_disk(patch: MonkeyPatch) -> None:
    take_in = ChainExecutor.import_blocks

    def swapped(self: ChainExecutor, block_ids: Series[int], data: NDArray[np.uint8]) -> None:
        take_in(self, block_ids, data[::-1])

    patch.setattr(ChainExecutor, "import_blocks", swapped)


def save_another_block(patch: MonkeyPatch) -> None:
    export = ChainExecutor.export_blocks
    patch.setattr(
        ChainExecutor, "export_blocks", lambda self, block_ids: export(self, [0 for _ in block_ids])
    )


def make_no_copies(patch: MonkeyPatch) -> None:
    patch.setattr(ChainExecutor, "copy_blocks", lambda self, sources, targets: None)


def show_blocks_before_they_are_computed(patch: MonkeyPatch) -> None:
    plan_ = Scheduler.plan

    def hasty(self: Scheduler, now: float) -> Plan:
        plan = plan_(self, now)
        for chunk in plan.chunks:
            chunk.sequence.table.publish(chunk.sequence.token_ids, chunk.stop)
        return plan

    patch.setattr(Scheduler, "plan", hasty)


def keep_evicted_blocks_in_the_index(patch: MonkeyPatch) -> None:
    patch.setattr(PrefixIndex, "forget", lambda self, block_ids: None)


def mix_up_the_namespaces(patch: MonkeyPatch) -> None:
    root = PrefixIndex.root
    patch.setattr(PrefixIndex, "root", lambda self, namespace: root(self, "everybody"))


def give_back_a_pin_twice(patch: MonkeyPatch) -> None:
    pin = Pins.pin

    def generous(self: Pins, last: Node, block_ids: Series[int]) -> None:
        known = last in self._pinned
        pin(self, last, block_ids)
        if last in self._pinned and not known:
            self._pool.give_back(list(block_ids)[::-1], self._index.worth)

    patch.setattr(Pins, "pin", generous)


FAULTS = [
    keep_the_blocks_of_the_superseded,
    let_the_superseded_go_on,
    say_cancelled_to_the_superseded,
    forget_the_last_token_of_the_preempted,
    count_what_the_preempted_had_computed,
    score_the_preempted_again,
    count_a_stopped_step,
    tell_nobody_that_the_loop_broke,
    forget_the_inbox_of_a_broken_loop,
    leave_the_door_of_a_broken_loop_open,
    keep_on_hold_who_left,
    never_let_go_of_who_waits_for_the_disk,
    swap_the_blocks_that_come_from_disk,
    save_another_block,
    make_no_copies,
    show_blocks_before_they_are_computed,
    keep_evicted_blocks_in_the_index,
    mix_up_the_namespaces,
    give_back_a_pin_twice,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_walk_notices(
    fault: Callable[[MonkeyPatch], None], monkeypatch: MonkeyPatch, tmp_path: Path
) -> None:
    fault(monkeypatch)
    with pytest.raises((InvariantBroken, AssertionError, pytest.fail.Exception)):
        for seed in range(20):
            (tmp_path / str(seed)).mkdir()
            Walk(tmp_path / str(seed), seed).take(400)
