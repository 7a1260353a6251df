"""Pool, index, tables and disk together, against a model that remembers everything and decides nothing."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from numpy.typing import NDArray

from halfline.kv.block_pool import BlockPool
from halfline.kv.block_table import BlockTable, check_accounts
from halfline.kv.disk_store import DiskStore
from halfline.kv.disk_tier import DiskTier
from halfline.kv.disk_worker import DiskWorker
from halfline.kv.prefix_index import PrefixIndex

BLOCK = 16
NUM_BLOCKS = 12
MAX_DISK_BYTES = 8000  # some twenty blocks
SCOPE = b"s" * 32

Contents = tuple[str, tuple[int, ...]]
GARBAGE: Contents = ("nobody", ())


@dataclass
class Running:
    """One sequence: what it wants in its places, and how many of them it has."""

    table: BlockTable
    namespace: str
    tokens: list[int]
    num_computed: int

    def contents(self, place: int) -> Contents:
        """What the KV of a place depends on: the namespace and all tokens up to it."""
        return self.namespace, tuple(self.tokens[: place + 1])


class World:
    """Sequences over few tokens, so that prefixes meet often, the arena they compute in, and the disk it is saved to.

    `slots[block][place]` is what was last written there. A sequence must find its own past in all of them before it
    computes on. The disk's worker has no thread: it works when it is told to.
    """

    def __init__(self, directory: Path, name_bytes: int = 16) -> None:
        self._directory = directory
        self._name_bytes = name_bytes
        self._known: list[Contents] = [GARBAGE]  # what has ever been written, by its number on disk
        self._numbers = {GARBAGE: 0}
        self._next_id = 0
        self.now = 0.0
        self.num_fetched = 0
        self.num_crashes = 0
        self._begin()

    def _begin(self) -> None:
        self.store = DiskStore(self._directory, SCOPE, MAX_DISK_BYTES, self._name_bytes)
        self.worker = DiskWorker(self.store, wake=lambda: None)
        self.tier = DiskTier(self.store, self.worker, self)
        self.pool = BlockPool(NUM_BLOCKS)
        self.index = PrefixIndex(self.tier.note)
        self.running: list[Running] = []
        self.waiting: dict[int, tuple[str, list[int]]] = {}  # for the disk
        self.slots = [[GARBAGE] * BLOCK for _ in range(NUM_BLOCKS)]

    def crash(self) -> None:
        """The process ends between any two things it does; what the worker has not written is lost."""
        self.num_fetched += self.tier.num_fetched
        self.num_crashes += 1
        self.store.close()
        self._begin()

    def export_blocks(self, block_ids: Sequence[int]) -> NDArray[np.uint8]:
        numbers = [[self._number(contents) for contents in self.slots[block_id]] for block_id in block_ids]
        return np.array(numbers, np.int64).view(np.uint8)

    def import_blocks(self, block_ids: Sequence[int], data: NDArray[np.uint8]) -> None:
        for block_id, numbers in zip(block_ids, data.view(np.int64).tolist(), strict=True):
            self.slots[block_id] = [self._known[number] for number in numbers]

    def _number(self, contents: Contents) -> int:
        if contents not in self._numbers:
            self._numbers[contents] = len(self._known)
            self._known.append(contents)
        return self._numbers[contents]

    def ask(self, namespace: str, tokens: list[int]) -> None:
        """Start at once, or wait for what the disk has of it."""
        self._next_id += 1
        table = BlockTable(self.pool, self.index, namespace)
        if self.tier.fetch(self._next_id, table, tokens, self.now):
            self.waiting[self._next_id] = namespace, tokens
        else:
            self.start(namespace, tokens)

    def land(self, seconds: float) -> None:
        """Time passes; what the worker has read takes its place, and whoever need not wait any longer starts."""
        self.now += seconds
        for sequence_id in sorted(self.tier.land(self.now)):
            self.start(*self.waiting.pop(sequence_id))

    def leave(self, which: int) -> None:
        """One that waits for the disk is called off."""
        if self.waiting:
            sequence_id = sorted(self.waiting)[which % len(self.waiting)]
            del self.waiting[sequence_id]
            self.tier.drop(sequence_id)

    def save(self) -> None:
        if self.tier.can_save:
            self.tier.save_one()

    def work_on_disk(self) -> None:
        if not self.worker.has_arrived:  # it would wait for the engine to take what has
            self.worker.work()

    def start(self, namespace: str, tokens: list[int]) -> None:
        table = BlockTable(self.pool, self.index, namespace)
        match = table.match(tokens)
        cost = table.cost(match, len(tokens))
        free = self.pool.num_free
        num_adopted = table.adopt(match)
        assert num_adopted < len(tokens)
        assert num_adopted == match.num_tokens or cost > free, "what was found is taken over if there is room"
        if table.grow(len(tokens)):
            assert free - self.pool.num_free == cost, "the cost was announced"
            self.running.append(Running(table, namespace, tokens, num_adopted))
        else:
            assert cost > free
            table.release()

    def fork(self, which: int, own: list[int]) -> None:
        """Ask for what another sequence has so far, and more."""
        if self.running:
            other = self.running[which % len(self.running)]
            self.start(other.namespace, [*other.tokens, *own])

    def extend(self, which: int, tokens: list[int]) -> None:
        if self.running:
            sequence = self.running[which % len(self.running)]
            before = list(sequence.table.block_ids), self.pool.num_free
            if sequence.table.grow(len(sequence.tokens) + len(tokens)):
                sequence.tokens += tokens
            else:
                assert (sequence.table.block_ids, self.pool.num_free) == before

    def compute(self, which: int, count: int, stopped: bool, shows_tail: bool) -> None:
        """One step of one sequence, as scheduler and executor do it; a stopped one leaves garbage and no record."""
        if not self.running:
            return
        sequence = self.running[which % len(self.running)]
        table = sequence.table
        if table.copy is not None:
            self.slots[table.copy.target] = list(self.slots[table.copy.source])
        for place in range(sequence.num_computed):
            assert self.slots[table.block_ids[place // BLOCK]][place % BLOCK] == sequence.contents(place)
        stop = min(len(sequence.tokens), sequence.num_computed + count)
        for place in range(sequence.num_computed, stop):
            written = GARBAGE if stopped else sequence.contents(place)
            self.slots[table.block_ids[place // BLOCK]][place % BLOCK] = written
        if not stopped:
            sequence.num_computed = stop
            table.copied()
            table.publish(sequence.tokens, stop)
            if shows_tail:
                table.publish_tail(sequence.tokens, stop)

    def finish(self, which: int, shows_tail: bool, worth_less: bool) -> None:
        if self.running:
            sequence = self.running.pop(which % len(self.running))
            if shows_tail:
                sequence.table.publish_tail(sequence.tokens, sequence.num_computed)
            if worth_less:
                sequence.table.release_cold(which % 3)
            sequence.table.release()  # an empty table holds nothing, so this changes nothing

    def check(self) -> None:
        check_accounts(self.pool, self.index, [sequence.table for sequence in self.running])

    def end(self) -> None:
        self.num_fetched += self.tier.num_fetched
        while self.waiting:
            self.leave(0)
        while self.running:
            self.finish(0, True, False)
        self.check()
        assert self.pool.num_held == 0, "every holder gave back exactly what it took"
        assert not self.tier.fetching
        self.store.check()
        self.store.close()


def prompt(blocks: list[int], own: list[int]) -> list[int]:
    return [token for token in blocks for _ in range(BLOCK)] + own


tokens_st = st.lists(st.integers(0, 1), min_size=1, max_size=20)
which_st = st.integers(0, 99)


class Machine(RuleBasedStateMachine):
    @initialize(name_bytes=st.sampled_from([1, 16]))
    def begin(self, name_bytes: int) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.world = World(Path(self.directory.name), name_bytes)

    @rule(namespace=st.sampled_from("ab"), blocks=st.lists(st.integers(0, 1), max_size=4), own=tokens_st)
    def start(self, namespace: str, blocks: list[int], own: list[int]) -> None:
        self.world.start(namespace, prompt(blocks, own))

    @rule(which=which_st, own=tokens_st)
    def fork(self, which: int, own: list[int]) -> None:
        self.world.fork(which, own)

    @rule(which=which_st, tokens=tokens_st)
    def extend(self, which: int, tokens: list[int]) -> None:
        self.world.extend(which, tokens)

    @rule(which=which_st, count=st.integers(1, 40), stopped=st.booleans(), shows_tail=st.booleans())
    def compute(self, which: int, count: int, stopped: bool, shows_tail: bool) -> None:
        self.world.compute(which, count, stopped, shows_tail)

    @rule(which=which_st, shows_tail=st.booleans(), worth_less=st.booleans())
    def finish(self, which: int, shows_tail: bool, worth_less: bool) -> None:
        self.world.finish(which, shows_tail, worth_less)

    @rule(namespace=st.sampled_from("ab"), blocks=st.lists(st.integers(0, 1), max_size=4), own=tokens_st)
    def ask(self, namespace: str, blocks: list[int], own: list[int]) -> None:
        self.world.ask(namespace, prompt(blocks, own))

    @rule(seconds=st.sampled_from([0.0, 0.1, 1.0]))
    def land(self, seconds: float) -> None:
        self.world.land(seconds)

    @rule(which=which_st)
    def leave(self, which: int) -> None:
        self.world.leave(which)

    @rule()
    def save(self) -> None:
        self.world.save()

    @rule()
    def work_on_disk(self) -> None:
        self.world.work_on_disk()

    @rule()
    def crash(self) -> None:
        self.world.crash()

    @invariant()
    def books_agree(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        self.world.end()
        self.directory.cleanup()


TestAccounts = Machine.TestCase
TestAccounts.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)


def wander(directory: Path, seed: int, num_steps: int) -> World:
    """The machine's steps without the machine, which is a hundred times as fast and shrinks nothing."""
    random = Random(seed)
    world = World(directory, random.choice([1, 16]))

    def some_tokens() -> list[int]:
        return random.choices([0, 1], [8, 1], k=random.randint(1, 20))

    def some_prompt() -> tuple[str, list[int]]:
        blocks = random.choices([0, 1], k=random.randint(0, 4))
        return random.choice("ab"), prompt(blocks, some_tokens())

    weights = {
        "start": 2,
        "ask": 3,
        "fork": 1,
        "extend": 2,
        "compute": 8,
        "finish": 4,
        "save": 6,
        "work on disk": 8,
        "land": 4,
        "leave": 1,
    }
    for _ in range(num_steps):
        which, flag = random.randrange(100), random.random() < 0.5
        if random.random() < 0.005:
            world.crash()
        match random.choices(list(weights), list(weights.values()))[0]:
            case "start":
                world.start(*some_prompt())
            case "ask":
                world.ask(*some_prompt())
            case "fork":
                world.fork(which, some_tokens())
            case "extend":
                world.extend(which, some_tokens())
            case "compute":
                world.compute(which, random.randint(1, 40), random.random() < 0.1, flag)
            case "finish":
                world.finish(which, flag, random.random() < 0.2)
            case "save":
                world.save()
            case "work on disk":
                world.work_on_disk()
            case "land":
                world.land(random.choice([0.0, 0.01, 0.6]))
            case "leave":
                world.leave(which)
        world.check()
    world.end()
    return world


@pytest.mark.parametrize("seed", range(2))
def test_five_thousand_random_steps_leave_the_books_and_the_contents_right(tmp_path: Path, seed: int) -> None:
    world = wander(tmp_path, seed, 5_000)
    assert world.num_fetched > 10 and world.num_crashes > 10


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 120))
def test_a_million_random_steps_leave_the_books_and_the_contents_right(tmp_path: Path, seed: int) -> None:
    wander(tmp_path, seed, 50_000)
