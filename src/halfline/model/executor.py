"""The seam between deciding and computing: a batch goes in, the rows that were asked for come out.

An executor owns the weights and the KV arena. It knows no requests, no text and no policy; `kv/` decides
which block belongs to whom, the executor only reads and writes the blocks it is told to.

Places and blocks: token number p of a sequence keeps its KV in slot p % BLOCK_TOKENS of the block
block_tables[sequence][p // BLOCK_TOKENS]; p is also its rotary position.

                     rows of the batch
    sequence 0       sequence 1   sequence 2
    [r0 r1 r2 r3 r4] [r5]         [r6 r7]          row_starts = [0, 5, 6, 8]
    places 32..36    place 7      places 0..1      first_places = [32, 7, 0]

Exact by construction: a row's result is bitwise the same whatever the other rows of the batch, however
its sequence was cut into steps, and whether its earlier KV was computed just now or long ago.

A KV format (model/kv_format.py) may take more blocks for a block that is not full yet: a table has them behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from halfline.model.kv_format import BLOCK_TOKENS as BLOCK_TOKENS
from halfline.model.kv_format import KvFormat
from halfline.model.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class Mask:
    """Which earlier places a row sees. Row at place i sees place j if

        j <= i   and (window is None or i - j < window or j < num_sinks)      causal, banded
        j < prefix and i < prefix                                             or both in the prefix

    `window` (B4) includes the row itself. `prefix` (B10) makes the first places see each other both ways:
    its rows must then be computed in one batch. A prefix and a window are not combined.
    """

    window: int | None = None
    num_sinks: int = 0
    prefix: int = 0


CAUSAL = Mask()


@dataclass(frozen=True, slots=True)
class Batch:
    """What one step computes, as plain arrays.

    token_ids int32 [rows] · row_starts int32 [sequences + 1] · first_places int32 [sequences] ·
    block_tables int32 [sequences, max_blocks] (entries past a sequence's end are never read) ·
    logit_rows, hidden_rows int32: the rows whose logits / final hidden states (after the last norm) are
    wanted. top_k: how many of the largest logits of every logit row are wanted beside them, 0 for none.
    choice_rows int32: the rows of which only the token with the largest logit is wanted; of a GreedyDecoder.
    """

    token_ids: NDArray[np.int32]
    row_starts: NDArray[np.int32]
    first_places: NDArray[np.int32]
    block_tables: NDArray[np.int32]
    masks: Sequence[Mask]
    logit_rows: NDArray[np.int32]
    hidden_rows: NDArray[np.int32]
    top_k: int = 0
    choice_rows: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))


@dataclass(frozen=True, slots=True)
class GreedyRun:
    """One sequence that goes on by itself, each token the one with the largest logit.

    `token_id` is the last known token; its KV, at `place`, is not written yet. The table, int32 [blocks], has room
    for `max_tokens` places from there on. Behind one of `end_ids` it does not go on.
    """

    token_id: int
    place: int
    block_table: NDArray[np.int32]
    max_tokens: int
    end_ids: tuple[int, ...] = ()
    mask: Mask = CAUSAL


@dataclass(frozen=True, slots=True)
class TopLogits:
    """What greedy choices and log-probabilities need of each logit row, so that nobody has to look at all of it.

    ids int32 [rows, top_k] and logits float32 [rows, top_k]: the largest first, the lower id first among equals ·
    log_totals float64 [rows]: log(sum(exp(logits))), to about 1e-6; NaN when a logit of the row is not finite, and
    then its ids and logits mean nothing.
    """

    ids: NDArray[np.int32]
    logits: NDArray[np.float32]
    log_totals: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Outputs:
    """logits float32 [len(logit_rows), vocab] · hidden float32 [len(hidden_rows), hidden_size].

    `top` is None when the batch's top_k is 0. choices int32 [len(choice_rows)]: of each row the token with the largest
    logit, the lowest among equals; -1 when that is not finite or a logit is not a number. None of who does not choose.
    """

    logits: NDArray[np.float32]
    hidden: NDArray[np.float32]
    top: TopLogits | None = None
    choices: NDArray[np.int32] | None = None


class StopFlag(Protocol):
    """Set from another thread to make a running step give up between two layers."""

    def set(self) -> None: ...
    def clear(self) -> None: ...


class Executor(Protocol):
    """Runs batches against a paged KV arena of `num_blocks` blocks. Not thread-safe; one owner calls it."""

    @property
    def spec(self) -> ModelSpec: ...

    @property
    def num_blocks(self) -> int: ...

    @property
    def kv_format(self) -> KvFormat: ...

    @property
    def stop_flag(self) -> StopFlag: ...

    def run(self, batch: Batch) -> Outputs | None:
        """Write the rows' KV and return what was asked; None when the stop flag was seen.

        After None the places that the batch would have written hold nothing of value; earlier ones of the same
        blocks are as they were.
        Raises ValueError for an inconsistent batch (a row, block or token out of range).
        """

    def copy_blocks(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy whole blocks, all layers. In a format that does not share open blocks only full ones mean anything."""

    def export_blocks(self, block_ids: Sequence[int]) -> NDArray[np.uint8]:
        """The blocks' bytes, [len(block_ids), block_bytes], as `import_blocks` of the same spec takes them."""

    def import_blocks(self, block_ids: Sequence[int], data: NDArray[np.uint8]) -> None: ...


@runtime_checkable
class GreedyDecoder(Protocol):
    """An executor that chooses tokens by itself: those of a batch's `choice_rows`, and in several steps of one sequence
    without coming back in between."""

    def decode(self, run: GreedyRun) -> NDArray[np.int32]:
        """The tokens that single steps would have given, int32, one that ends the run as the last.

        There are fewer than asked for when the stop flag was seen, or when a row has no choice (see Outputs): a step of
        its own tells. As many places as there are tokens were written; those behind them hold nothing of value.
        Raises ValueError for a run that is out of range.
        """
