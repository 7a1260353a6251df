"""Everything that can happen to a sequence, on the engine's own loop, against a model that recomputes it.

Sequences of a few users, keys and namespaces over few tokens come, fork, are called off, superseded and preempted in an
arena for two or three of them; their blocks go to a directory and come back. What is asked for while a step runs is
among it, and so is a step that breaks the loop. Nothing has a thread here: the loop takes a turn when it is told to,
and so does the disk's worker.

The model knows what was asked for. From that alone it says which token comes next, what may be reused, and who must
have ended by now.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from random import Random
from typing import Literal
from zlib import crc32

import numpy as np
import pytest
from character_work import Characters
from decoding import Decoding
from numpy.typing import NDArray

from halfline.engine.hash_executor import HashExecutor
from halfline.engine.loop import EngineLoop
from halfline.engine.options import EngineOptions
from halfline.engine.sequence import Progress, Work
from halfline.errors import EngineFailed, InvariantBroken
from halfline.kv.disk_store import DiskStore
from halfline.kv.disk_tier import DiskTier
from halfline.model.executor import BLOCK_TOKENS, Batch
from halfline.model.kv_format import F16, INT8, KvFormat
from halfline.request import FinishReason, Priority, SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler, Scored, score

VOCAB = 32
MAX_CONTEXT = 112  # seven blocks, and one to fill in int8: what the arena has beyond them may be pinned
MAX_DISK_BYTES = 8000  # some twenty blocks
SCOPE = b"s" * 32
PRIORITIES: tuple[Priority, ...] = ("interactive", "batch", "idle")
Kind = Literal["plain", "scored", "pinned", "begins the next"]
KINDS: tuple[Kind, ...] = ("plain", "scored", "pinned", "begins the next")
KEYS = ("ann", "ben")
"""Each has a namespace of its own."""

Action = Callable[[], None]


class BrokenStep(Exception):
    """What an executor may raise at any time."""


class World:
    """`random` chooses the engine's options, whether its executor decodes by itself and, of what happens, only how long
    a step takes, and within which of several in a row it happens.
    """

    def __init__(self, directory: Path, random: Random) -> None:
        self.random = random
        self._directory = directory
        self._name_bytes = random.choice([1, 16])
        self._num_blocks = random.choice([8, 12])
        self._kv_format = random.choice([F16, F16, INT8])
        self._options = EngineOptions(
            step_tokens=random.choice([4, 16, 40]), max_num_seqs=4, patience_s=0.7, speculation="off"
        )
        self.now = 100.0
        self.open: dict[int, Asked] = {}
        self.counts: Counter[str] = Counter()  # how often what happened
        self._num_asked = 0
        self._latest: list[Asked] = []  # open or not
        self._leaving: set[int] = set()
        self._within_step: list[Action] = []
        # A trie: behind a node, or first in a namespace, a token's node, and who alone ever had it.
        self._seen: dict[tuple[object, int], tuple[int, Asked | None]] = {}
        self._begin()

    def _begin(self) -> None:
        chain = self.random.choice([ChainExecutor, DecodingChain])
        self._executor = chain(self._num_blocks, self._kv_format, self._step_runs)
        self._store = DiskStore(self._directory, SCOPE, MAX_DISK_BYTES, self._name_bytes)
        self._loop = EngineLoop(self._executor, self._options, lambda: self.now, self._deliver, self._store)

    def ask(self, prompt: Sequence[int], shape: "Shape") -> None:
        """A newer one for the same file supersedes the older."""
        asked = Asked(shape.work(prompt), shape.file)
        self._remember(asked, asked.work.prompt_ids)
        self._latest = [*self._latest[-7:], asked]
        older = [number for number, each in self.open.items() if asked.supersedes(each)]
        self.open[self._num_asked] = asked
        self._loop.submit({self._num_asked: asked.work})
        self._num_asked += 1
        self._end(older, "superseded")

    def ask_after(self, which: int, own: Sequence[int], shape: "Shape") -> None:
        """Ask for what another one has so far, and more."""
        if self._latest:
            self.ask((*self._latest[which % len(self._latest)].all_tokens, *own), shape)

    def call_off(self, which: int) -> None:
        if self.open:
            self._end([list(self.open)[which % len(self.open)]], "cancelled")

    def call_off_all(self) -> None:
        self._end(list(self.open), "cancelled")

    def step(self, *within: Action) -> None:
        """The loop takes in what has arrived and runs a step, within which all of that happens."""
        due = set(self._leaving)
        self._within_step = list(within)
        self._loop._wake()  # so that it never waits for a message
        self._loop._receive()
        assert due.isdisjoint(self.open), "whoever left before the step is in no step any more"
        self._leaving -= due
        if self._loop._scheduler.can_run:
            self._loop._step()
        self._happen()  # what there was no further step in a row for

    def break_down(self, *within: Action) -> None:
        """The next step raises after all of that, and another engine opens the directory."""
        try:
            self.step(*within, self._raise)
        except BrokenStep as error:
            for asked in self.open.values():
                asked.may_end_as.add("failed")
            self._loop._fail(error)
            assert not self.open, "everybody heard of it"
            with pytest.raises(EngineFailed):
                self._loop.submit({0: Shape().work([1])})
            self.counts["broke"] += 1
            self.kill()

    def kill(self) -> None:
        """The process ends here, and another opens the directory."""
        self._close()
        self.open.clear()
        self._leaving.clear()
        self._begin()

    def save(self) -> None:
        if self._tier.can_save:
            self._tier.save_one()

    def work_on_disk(self) -> None:
        worker = self._tier._worker
        if not worker.has_arrived:  # it would wait for the engine to take what has
            worker.work()

    def check(self) -> None:
        self._loop._scheduler.check()

    def finish(self) -> None:
        """Let all that is left run to its end; then nobody holds anything."""
        for _ in range(100 * len(self.open)):
            self.work_on_disk()
            self.now += 0.1
            self.step()
            self.check()
        assert not self.open, "somebody waits for ever"
        self._loop._pins.release_all()
        assert self._loop._pool.num_held == 0, "every holder gave back exactly what it took"
        assert not self._tier.fetching
        self._store.check()
        self._close()

    @property
    def _tier(self) -> DiskTier:
        assert self._loop._tier is not None
        return self._loop._tier

    def _end(self, numbers: Sequence[int], reason: FinishReason) -> None:
        for number in numbers:
            self.open[number].may_end_as.add(reason)
        self._leaving.update(numbers)
        self._loop.cancel(numbers, reason)

    def _step_runs(self, batch: Batch) -> None:
        self.now += self.random.uniform(0.001, 0.03)
        plan = self._loop._guard._plan
        if plan is not None and plan.goes_on and self.random.random() < 0.5:
            return
        self._happen()
        self.counts["stopped"] += self._executor.stop_flag.is_set()

    def _happen(self) -> None:
        actions, self._within_step = self._within_step, []
        for action in actions:
            action()

    def _raise(self) -> None:
        raise BrokenStep

    def _deliver(self, progress: list[Progress]) -> None:
        for each in progress:
            asked = self.open[each.sequence_id]
            asked.gained(each)
            self._remember(asked, [token.token_id for token in each.piece.tokens])
            if each.outcome is not None:
                assert each.outcome.stats.num_reused <= self._num_seen(asked)
                self.counts[each.outcome.finish_reason] += 1
                del self.open[each.sequence_id]

    def _num_seen(self, asked: "Asked") -> int:
        """The longest beginning of its prompt that anybody else of its namespace ever had."""
        node: object = asked.work.namespace
        for num_tokens, token_id in enumerate(asked.work.prompt_ids):
            node, owner = self._seen[node, token_id]
            if owner is asked:
                return num_tokens
        return len(asked.work.prompt_ids)

    def _remember(self, asked: "Asked", token_ids: Sequence[int]) -> None:
        """It has these tokens, too."""
        for token_id in token_ids:
            node, owner = self._seen.setdefault((asked.node, token_id), (len(self._seen), asked))
            if owner is not asked and owner is not None:
                self._seen[asked.node, token_id] = node, None
            asked.node = node

    def _close(self) -> None:
        stats = self._loop._stats()
        self.counts["preempted"] += stats.total_preemptions
        self.counts["evicted"] += stats.total_evicted_blocks + stats.total_evicted_tails
        self.counts["went on"] += stats.total_greedy_run_tokens
        self.counts["copied"] += stats.total_copied_blocks
        self.counts["reused"] += stats.total_reused_tokens
        self.counts["saved"] += stats.total_saved_blocks
        self.counts["fetched"] += stats.total_fetched_blocks
        self._store.close()


@dataclass(frozen=True)
class Shape:
    """What is asked about a prompt."""

    max_new_tokens: int = 4
    priority: Priority = "interactive"
    key: str = "ann"
    user: str = "a"
    file: int | None = None
    kind: Kind = "plain"

    def work(self, prompt: Sequence[int]) -> Work:
        prompt_ids = tuple(prompt[: MAX_CONTEXT - self.max_new_tokens])
        return Work(
            prompt_ids=prompt_ids,
            max_new_tokens=self.max_new_tokens,
            sampler=Sampler(SamplingParams(), prompt_ids),
            reader=Reader(Characters()),
            stop_token_ids=frozenset(),
            namespace=self.key,
            prompt_logprobs=0 if self.kind == "scored" else None,
            priority=self.priority,
            key=self.key,
            user=self.user,
            num_pinned_tokens=40 if self.kind == "pinned" else 0,
            begins_the_next=self.kind == "begins the next",
        )


@dataclass
class Asked:
    """One sequence as the model knows it. `file`: of a user's only the newest for a file is wanted; None: for none."""

    work: Work
    file: int | None
    tokens: list[int] = field(default_factory=list)
    scores: list[Scored] = field(default_factory=list)
    outcome: FinishReason | None = None
    may_end_as: set[FinishReason] = field(default_factory=lambda: {"length"})
    node: object = field(init=False)  # of the trie: its tokens so far

    def __post_init__(self) -> None:
        self.node = self.work.namespace

    @property
    def all_tokens(self) -> tuple[int, ...]:
        return (*self.work.prompt_ids, *self.tokens)

    @property
    def num_scores(self) -> int:
        """All there will be."""
        return 0 if self.work.prompt_logprobs is None else len(self.work.prompt_ids) - 1

    def supersedes(self, older: "Asked") -> bool:
        same = (older.work.key, older.work.user, older.file) == (self.work.key, self.work.user, self.file)
        return self.file is not None and same

    def gained(self, progress: Progress) -> None:
        """What comes is what would have come without anybody else, and nothing comes after the end."""
        assert self.outcome is None
        for token in progress.piece.tokens:
            assert token.token_id == following(self.all_tokens)
            self.tokens.append(token.token_id)
        for scored in progress.prompt_scores:
            assert len(self.scores) < self.num_scores
            assert scored == scored_token(self.work.prompt_ids, 1 + len(self.scores))
            self.scores.append(scored)
        if progress.outcome is not None:
            self.outcome = progress.outcome.finish_reason
            assert self.outcome in self.may_end_as
        if self.outcome == "length":
            assert len(self.tokens) == self.work.max_new_tokens
            assert len(self.scores) == self.num_scores


def following(token_ids: Sequence[int]) -> int:
    return reduce(behind, token_ids, 0) % VOCAB


def scored_token(token_ids: Sequence[int], place: int) -> Scored:
    return score(logits(reduce(behind, token_ids[:place], 0), VOCAB), token_ids[place], 0)


def behind(past: int, token_id: int) -> int:
    """What a place stands for whose token comes after that past."""
    return crc32(token_id.to_bytes(4, "little", signed=True), past)


def logits(past: int, size: int) -> NDArray[np.float32]:
    """One token is likelier than the others."""
    row = np.zeros(size, np.float32)
    row[past % size] = 1.0
    return row


class ChainExecutor(HashExecutor):
    """As a model's, the KV of a place depends on all before it: a block behind another past is not the same block."""

    def __init__(self, num_blocks: int, kv_format: KvFormat, before_run: Callable[[Batch], None]) -> None:
        super().__init__(
            num_blocks, vocab_size=VOCAB, max_context=MAX_CONTEXT, kv_format=kv_format, before_run=before_run
        )
        self._pasts = np.zeros((num_blocks, BLOCK_TOKENS), np.uint32)

    def copy_blocks(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        super().copy_blocks(sources, targets)
        self._pasts[list(targets)] = self._pasts[list(sources)]

    def export_blocks(self, block_ids: Sequence[int]) -> NDArray[np.uint8]:
        return np.hstack([super().export_blocks(block_ids), self._pasts[list(block_ids)].view(np.uint8)])

    def import_blocks(self, block_ids: Sequence[int], data: NDArray[np.uint8]) -> None:
        tokens, pasts = np.hsplit(data, 2)
        super().import_blocks(block_ids, np.ascontiguousarray(tokens))
        self._pasts[list(block_ids)] = np.ascontiguousarray(pasts).view(np.uint32)

    def _write(self, batch: Batch, token_ids: NDArray[np.int32]) -> None:
        super()._write(batch, token_ids)
        for index, table in enumerate(batch.block_tables.tolist()):
            place, past = int(batch.first_places[index]), 0
            if place:
                past = int(self._pasts[table[(place - 1) // BLOCK_TOKENS], (place - 1) % BLOCK_TOKENS])
            for token_id in token_ids[batch.row_starts[index] : batch.row_starts[index + 1]].tolist():
                past = behind(past, token_id)
                self._pasts[table[place // BLOCK_TOKENS], place % BLOCK_TOKENS] = past
                place += 1

    def _hashed(self, batch: Batch, rows: NDArray[np.int32], size: int) -> NDArray[np.float32]:
        found = [logits(self._last_past(batch, row), size) for row in rows.tolist()]
        return np.array(found, np.float32).reshape(len(found), size)

    def _last_past(self, batch: Batch, row: int) -> int:
        """That of the row's place, and all before it are those of the tokens that the blocks hold."""
        token_ids = self._read(batch, row)
        index = int(np.searchsorted(batch.row_starts, row, side="right")) - 1
        stored = self._pasts[batch.block_tables[index]].reshape(-1).tolist()
        past = 0
        for place, token_id in enumerate(token_ids):
            past = behind(past, token_id)
            if stored[place] != past:
                raise InvariantBroken(f"place {place} was computed behind another past")
        return past


class DecodingChain(Decoding, ChainExecutor):
    """The same, several steps in a row."""


def prompt_of(blocks: Sequence[int], own: Sequence[int]) -> list[int]:
    return [token for token in blocks for _ in range(BLOCK_TOKENS)] + list(own)
