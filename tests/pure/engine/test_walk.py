"""Whatever comes, forks, leaves, is superseded, preempted, saved, fetched, broken: no token changes, nothing stays."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from engine_walk import Walk
from engine_world import KEYS, KINDS, PRIORITIES, Shape, World, prompt_of
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from halfline.engine import greedy_runs

own_st = st.lists(st.integers(0, 1), min_size=1, max_size=20)
blocks_st = st.lists(st.integers(0, 1), max_size=4)
which_st = st.integers(0, 99)
shape_st = st.builds(
    Shape,
    max_new_tokens=st.integers(0, 20),
    priority=st.sampled_from(PRIORITIES),
    key=st.sampled_from(KEYS),
    user=st.sampled_from("ab"),
    file=st.none() | st.integers(0, 1),
    kind=st.sampled_from(KINDS),
)
arrivals_st = st.builds(
    lambda *asked: lambda world: world.ask(prompt_of(*asked[:2]), asked[2]), blocks_st, own_st, shape_st
)
continuations_st = st.builds(lambda *asked: lambda world: world.ask_after(*asked), which_st, own_st, shape_st)
departures_st = st.builds(lambda which: lambda world: world.call_off(which), which_st)
events_st = st.lists(arrivals_st | continuations_st | departures_st | st.just(World.call_off_all), max_size=2)


HAPPENED = [
    *("superseded", "cancelled", "stopped", "failed", "broke", "length"),
    *("preempted", "evicted", "copied", "reused", "saved", "fetched"),
]


class Machine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 99))
    def begin(self, seed: int) -> None:
        self.directory = TemporaryDirectory()
        self.world = World(Path(self.directory.name), Random(seed))

    @rule(events=events_st)
    def hear(self, events: list[Callable[[World], None]]) -> None:
        for event in events:
            event(self.world)

    @rule(within=events_st)
    def step(self, within: list[Callable[[World], None]]) -> None:
        self.world.step(*(partial(event, self.world) for event in within))

    @rule(within=events_st)
    def break_down(self, within: list[Callable[[World], None]]) -> None:
        self.world.break_down(*(partial(event, self.world) for event in within))

    @rule()
    def kill(self) -> None:
        self.world.kill()

    @rule(seconds=st.sampled_from([0.1, 1.0]))
    def wait(self, seconds: float) -> None:
        self.world.now += seconds

    @rule()
    def save(self) -> None:
        self.world.save()

    @rule()
    def work_on_disk(self) -> None:
        self.world.work_on_disk()

    @invariant()
    def books_agree(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        self.world.finish()
        self.directory.cleanup()


TestEngine = Machine.TestCase
TestEngine.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize("seed", range(4))
def test_ten_thousand_random_steps_change_no_token_and_leave_nothing_behind(
    tmp_path: Path, seed: int
) -> None:
    counts = Walk(tmp_path, seed).take(2_500)
    assert min(counts[what] for what in HAPPENED) > 2, counts


@pytest.mark.parametrize("seed", [0, 1])
def test_of_two_at_most_one_that_is_alone_goes_on_by_itself_and_that_changes_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(greedy_runs, "_UNGUESSED", 1)
    counts = Walk(tmp_path, seed, max_open=1).take(1_500)
    assert min(counts[what] for what in ("went on", "stopped", "cancelled", "failed", "length")) > 5, counts


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 140))
def test_a_million_random_steps_change_no_token_and_leave_nothing_behind(tmp_path: Path, seed: int) -> None:
    Walk(tmp_path, seed).take(25_000)
