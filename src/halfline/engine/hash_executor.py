"""An executor without a model: what tests run the engine on.

The KV of a token is the token itself. The logits behind a row come from a hash of all tokens that the sequence's
blocks hold, read back through its block table: any mistake about whose block is whose, what it contains or what
was computed changes the answer, and equal tokens give equal logits whatever else runs.
"""

import threading
from collections.abc import Callable, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from halfline.errors import InvariantBroken
from halfline.model.batch_check import check_batch
from halfline.model.executor import BLOCK_TOKENS, Batch, Outputs
from halfline.model.kv_format import F16, KvFormat
from halfline.model.reference import choices_of, top_logits
from halfline.model.spec import ModelSpec, RopeSpec

_NOTHING = -1  # a slot that was never written, or by a step that was stopped


class HashExecutor:
    """`before_run` is called with every batch, to look, to wait or to raise.

    In a format that does not share open blocks, what lay in a block's fp16 places is gone once it was full.
    """

    def __init__(
        self,
        num_blocks: int,
        *,
        vocab_size: int = 258,
        max_context: int = 8192,
        kv_format: KvFormat = F16,
        before_run: Callable[[Batch], None] = lambda batch: None,
    ) -> None:
        self.num_blocks = num_blocks
        self.kv_format = kv_format
        self.spec = _spec(vocab_size, max_context)
        self.stop_flag = threading.Event()
        self.before_run = before_run
        self._tokens = np.full((num_blocks, BLOCK_TOKENS), _NOTHING, np.int32)
        self._closed: set[int] = set()  # blocks that were full, where they cannot be continued

    def run(self, batch: Batch) -> Outputs | None:
        check_batch(batch, self.spec, self.num_blocks, self.kv_format)
        self._write(batch, np.full_like(batch.token_ids, _NOTHING))
        self.before_run(batch)
        if self.stop_flag.is_set():
            return None
        self._write(batch, batch.token_ids)
        if not self.kv_format.shares_open_blocks:
            self._close(batch)
        rows = self._hashed(batch, batch.logit_rows, self.spec.vocab_size)
        return Outputs(
            rows,
            self._hashed(batch, batch.hidden_rows, self.spec.hidden_size),
            top_logits(rows, batch.top_k) if batch.top_k else None,
            choices_of(self._hashed(batch, batch.choice_rows, self.spec.vocab_size)),
        )

    def copy_blocks(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        self._tokens[list(targets)] = self._tokens[list(sources)]

    def export_blocks(self, block_ids: Sequence[int]) -> NDArray[np.uint8]:
        return self._tokens[list(block_ids)].view(np.uint8)

    def import_blocks(self, block_ids: Sequence[int], data: NDArray[np.uint8]) -> None:
        self._tokens[list(block_ids)] = data.view(np.int32)

    def _hashed(self, batch: Batch, rows: NDArray[np.int32], size: int) -> NDArray[np.float32]:
        """float32 [rows, size], each from all tokens up to it."""
        found = [hash_logits(self._read(batch, row), size) for row in rows.tolist()]
        return np.array(found, np.float32).reshape(len(found), size)

    def _write(self, batch: Batch, token_ids: NDArray[np.int32]) -> None:
        for index, table in enumerate(batch.block_tables):
            rows = slice(batch.row_starts[index], batch.row_starts[index + 1])
            places = batch.first_places[index] + np.arange(rows.stop - rows.start)
            self._tokens[table[places // BLOCK_TOKENS], places % BLOCK_TOKENS] = token_ids[rows]

    def _close(self, batch: Batch) -> None:
        """Full blocks are for reading from now on; one that is open takes the block behind it, too."""
        for index, table in enumerate(batch.block_tables):
            first = int(batch.first_places[index])
            stop = first + int(batch.row_starts[index + 1] - batch.row_starts[index])
            if first % BLOCK_TOKENS and int(table[first // BLOCK_TOKENS]) in self._closed:
                raise InvariantBroken(f"place {first} continues a block that was full")
            written = table[first // BLOCK_TOKENS : -(-stop // BLOCK_TOKENS)].tolist()
            self._closed.difference_update(written)
            self._closed.update(written if stop % BLOCK_TOKENS == 0 else written[:-1])
            if stop % BLOCK_TOKENS:
                self._tokens[table[stop // BLOCK_TOKENS + 1]] = _NOTHING

    def _read(self, batch: Batch, row: int) -> list[int]:
        """All tokens up to the row, as the blocks hold them."""
        index = int(np.searchsorted(batch.row_starts, row, side="right")) - 1
        num_places = int(batch.first_places[index]) + row - int(batch.row_starts[index]) + 1
        table = batch.block_tables[index, : -(-num_places // BLOCK_TOKENS)]
        tokens: list[int] = self._tokens[table].reshape(-1)[:num_places].tolist()
        if _NOTHING in tokens:
            raise InvariantBroken(f"place {tokens.index(_NOTHING)} is read before it was written")
        return tokens


def hash_logits(token_ids: Sequence[int], vocab_size: int) -> NDArray[np.float32]:
    """The logits behind these tokens, normally distributed: what a sequence alone would see."""
    digest = blake2b(np.array(token_ids, "<i4").tobytes(), digest_size=8).digest()
    random = np.random.Generator(np.random.Philox(int.from_bytes(digest, "little")))
    return random.standard_normal(vocab_size, np.float32)


def _spec(vocab_size: int, max_context: int) -> ModelSpec:
    return ModelSpec(
        family="llama",
        name="hash",
        num_layers=1,
        hidden_size=8,
        num_heads=1,
        num_kv_heads=1,
        head_dim=8,
        ffn_size=8,
        vocab_size=vocab_size,
        max_context=max_context,
        norm="rms",
        norm_eps=1e-5,
        gated=True,
        attention_scale=1.0,
        rope=RopeSpec(base=10_000.0, rotary_dim=8),
    )
