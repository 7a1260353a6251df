"""Pool, index and tables together, against a model that remembers everything and decides nothing."""

from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from halfline.kv.block_pool import BlockPool
from halfline.kv.block_table import BlockTable, check_accounts
from halfline.kv.prefix_index import PrefixIndex

BLOCK = 16
NUM_BLOCKS = 12
GARBAGE = ("nobody", ())


@dataclass
class Running:
    """One sequence: what it wants in its places, and how many of them it has."""

    table: BlockTable
    namespace: str
    tokens: list[int]
    num_computed: int

    def contents(self, place: int) -> tuple[str, tuple[int, ...]]:
        """What the KV of a place depends on: the namespace and all tokens up to it."""
        return self.namespace, tuple(self.tokens[: place + 1])


class World:
    """Sequences over few tokens, so that prefixes meet often, and the arena they compute in.

    `slots[block][place]` is what was last written there. A sequence must find its own past in all of them before it
    computes on.
    """

    def __init__(self) -> None:
        self.pool = BlockPool(NUM_BLOCKS)
        self.index = PrefixIndex()
        self.running: list[Running] = []
        self.slots = [[GARBAGE] * BLOCK for _ in range(NUM_BLOCKS)]

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
                sequence.table.release_cold()
            sequence.table.release()  # an empty table holds nothing, so this changes nothing

    def check(self) -> None:
        check_accounts(self.pool, self.index, [sequence.table for sequence in self.running])

    def end(self) -> None:
        while self.running:
            self.finish(0, True, False)
        self.check()
        assert self.pool.num_held == 0, "every holder gave back exactly what it took"


def prompt(blocks: list[int], own: list[int]) -> list[int]:
    return [token for token in blocks for _ in range(BLOCK)] + own


tokens_st = st.lists(st.integers(0, 1), min_size=1, max_size=20)
which_st = st.integers(0, 99)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()

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

    @invariant()
    def books_agree(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        self.world.end()


TestAccounts = Machine.TestCase
TestAccounts.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


def wander(seed: int, num_steps: int) -> World:
    """The machine's steps without the machine, which is a hundred times as fast and shrinks nothing."""
    random = Random(seed)
    world = World()

    def some_tokens() -> list[int]:
        return random.choices([0, 1], [8, 1], k=random.randint(1, 20))

    for _ in range(num_steps):
        which, flag = random.randrange(100), random.random() < 0.5
        match random.choices(["start", "fork", "extend", "compute", "finish"], [3, 1, 2, 8, 3])[0]:
            case "start":
                world.start(
                    random.choice("ab"), prompt(random.choices([0, 1], k=random.randint(0, 4)), some_tokens())
                )
            case "fork":
                world.fork(which, some_tokens())
            case "extend":
                world.extend(which, some_tokens())
            case "compute":
                world.compute(which, random.randint(1, 40), random.random() < 0.1, flag)
            case "finish":
                world.finish(which, flag, random.random() < 0.2)
        world.check()
    return world


@pytest.mark.parametrize("seed", range(4))
def test_five_thousand_random_steps_leave_the_books_and_the_contents_right(seed: int) -> None:
    wander(seed, 5_000).end()


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 120))
def test_a_million_random_steps_leave_the_books_and_the_contents_right(seed: int) -> None:
    wander(seed, 50_000).end()
