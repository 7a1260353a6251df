"""Blocks that outlive the arena: saved while the engine has nothing to do, fetched when a prompt wants them again.

Saving: every full block that is new is put on a list; an idle engine copies one out at a time and hands it to the
worker's thread. A block that lost its place before its turn is gone: keystrokes come first.

Fetching: a prompt that begins with more blocks than the arena knows waits while they are read, in portions that land
between two steps, and is then matched as any other. One that begins like a prompt that waits already waits for the same
blocks, and then perhaps for some of its own. A fetch that makes no progress for a while is given up: what the disk does
not deliver is computed.

Belongs to the engine's thread. Knows blocks and sequences' ids; nothing of queues or steps.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from halfline.kv.block_file import BlockHeader
from halfline.kv.block_table import BlockTable
from halfline.kv.disk_store import DiskStore
from halfline.kv.disk_worker import DiskWorker, Fetch, Portion
from halfline.kv.prefix_index import Node, token_blocks
from halfline.model.executor import BLOCK_TOKENS

_MAX_UNSAVED = 1 << 16  # an engine that is never idle saves nothing; the list need not grow for ever

PATIENCE_S = 0.5
"""How long a fetch may make no progress: a disk that is slower than this per portion is slower than computing."""


class BlockMover(Protocol):
    """What of an executor is needed here."""

    def export_blocks(self, block_ids: Sequence[int]) -> NDArray[np.uint8]: ...

    def import_blocks(self, block_ids: Sequence[int], data: NDArray[np.uint8]) -> None: ...


@dataclass(frozen=True, slots=True)
class _Prompt:
    """What is to be fetched for a sequence. `num_known`: of its blocks, when it was asked for."""

    sequence_id: int
    table: BlockTable  # holds blocks only while a portion lands
    token_ids: Sequence[int]
    num_known: int


@dataclass(slots=True)
class _Landing:
    """A fetch under way, for whom it was begun, and who waits for it, by their sequences' ids."""

    fetch: Fetch
    prompt: _Prompt
    waiting: dict[int, _Prompt]
    progress_at: float


class DiskTier:
    """The index has to tell `note` of new blocks. `now` is the clock's time, in seconds."""

    def __init__(self, store: DiskStore, worker: DiskWorker, mover: BlockMover) -> None:
        self._store = store
        self._worker = worker
        self._mover = mover
        self._unsaved: deque[Node] = deque(maxlen=_MAX_UNSAVED)
        self._landings: list[_Landing] = []
        self.num_saved = 0
        self.num_fetched = 0

    def start(self) -> None:
        self._worker.start()

    def note(self, node: Node) -> None:
        """A full block is new in the index."""
        self._unsaved.append(node)

    @property
    def can_save(self) -> bool:
        return bool(self._unsaved) and self._worker.takes_writes

    @property
    def fetching(self) -> bool:
        return bool(self._landings)

    @property
    def has_arrived(self) -> bool:
        return self._worker.has_arrived

    def save_one(self) -> None:
        """Copy one block out of the arena, if the next on the list is still there and not yet on disk."""
        node = self._unsaved.popleft()
        if not node.block_ids or node.parent is None:
            return
        name = self._store.names.of(node)
        if name not in self._store:
            data = self._mover.export_blocks(node.block_ids[:1])[0].data.cast("B")
            header = BlockHeader(name, self._store.names.of(node.parent), node.tokens, len(data))
            self._worker.write(header, data)
            self.num_saved += 1

    def save_rest(self, clock: Callable[[], float], timeout_s: float) -> None:
        """All that is still to be saved, as far as the disk takes it in that time."""
        give_up_at = clock() + timeout_s
        while self._unsaved and not self._worker.broken and clock() < give_up_at:
            if not self._worker.takes_writes:
                self._worker.wait_for_writes(give_up_at - clock())
            if self.can_save:
                self.save_one()

    def fetch(self, sequence_id: int, table: BlockTable, token_ids: Sequence[int], now: float) -> bool:
        """Start to fetch what follows the tokens' known beginning; False: the disk knows no more of it.

        `table` is an empty one of the sequence's namespace.
        """
        nodes = table.match(token_ids).nodes
        prompt = _Prompt(sequence_id, table, token_ids, len(nodes))
        past = self._store.names.of(nodes[-1] if nodes else table.root)
        wanted = []
        for tokens in token_blocks(token_ids[len(nodes) * BLOCK_TOKENS :])[
            : _num_fetchable(token_ids) - len(nodes)
        ]:
            past = self._store.names.behind(past, tokens)
            if past not in self._store:
                break
            wanted.append((past, tokens))
        if not wanted:
            return False
        for landing in self._landings:
            if landing.fetch.wanted[0] == wanted[0]:
                landing.waiting[sequence_id] = prompt  # begins alike
                return True
        fetch = Fetch(len(nodes), wanted)
        self._landings.append(_Landing(fetch, prompt, {sequence_id: prompt}, now))
        self._worker.read(fetch)
        return True

    def drop(self, sequence_id: int) -> None:
        """The sequence has ended; unknown ones are passed over."""
        for landing in self._landings:
            landing.waiting.pop(sequence_id, None)
        self._give_up([landing for landing in self._landings if not landing.waiting])

    def land(self, now: float) -> set[int]:
        """Take in at most one portion; the sequences that need not wait any longer."""
        portion = self._worker.take()
        for landing in self._landings:
            if portion is not None and landing.fetch is portion.fetch:
                landing.progress_at = now
                self._place(landing, portion)
                if portion.last:
                    self._landings.remove(landing)
                    return {
                        each.sequence_id
                        for each in landing.waiting.values()
                        if not self._goes_on(each, landing, now)
                    }
        late = [landing for landing in self._landings if now - landing.progress_at > PATIENCE_S]
        self._give_up(late)
        return {sequence_id for landing in late for sequence_id in landing.waiting}

    def _goes_on(self, prompt: _Prompt, landing: _Landing, now: float) -> bool:
        """Whether one for whom the fetch was not begun waits for more. Only one that it brought further: an arena that
        has no room for what comes would be filled for ever.
        """
        if prompt is landing.prompt or len(prompt.table.match(prompt.token_ids).nodes) <= prompt.num_known:
            return False
        return self.fetch(prompt.sequence_id, prompt.table, prompt.token_ids, now)

    def close(self) -> None:
        """End the worker once it has written what it was handed."""
        self._worker.close()

    def _give_up(self, landings: Sequence[_Landing]) -> None:
        for landing in landings:
            landing.fetch.dropped = True
            self._landings.remove(landing)

    def _place(self, landing: _Landing, portion: Portion) -> None:
        """Give the portion's blocks a place in the arena, if their past is still there, and let them be found."""
        table, token_ids = landing.prompt.table, landing.prompt.token_ids
        stop = portion.first_block + len(portion.blocks)
        match = table.match(token_ids).first(stop)
        known = len(match.nodes)
        if not portion.first_block <= known < stop:
            return  # evicted or computed meanwhile
        table.adopt(match)
        if table.grow(stop * BLOCK_TOKENS):
            data = np.stack(
                [np.frombuffer(block, np.uint8) for block in portion.blocks[known - portion.first_block :]]
            )
            self._mover.import_blocks(table.block_ids[known:stop], data)
            table.publish(token_ids, stop * BLOCK_TOKENS)
            self.num_fetched += stop - known
        table.release()


def _num_fetchable(token_ids: Sequence[int]) -> int:
    """Full blocks that do not cover the last token, which is always computed."""
    return (len(token_ids) - 1) // BLOCK_TOKENS
