"""What the static arena saves before the first token: the clock's side of allocation.py.

Three things are really measured:

    touched     a prefill into blocks that were written before, as in a server that has run for a minute
    fresh       the same prefill into blocks of the same arena that no one has written yet: the system hands out and
                clears their pages during the step, as it would for memory allocated per request
    growing     only the memory work of a piece that is allocated for the prompt, written, and moved once into one of
                twice the size, as allocation.Doubling does; no model runs

No engine with a dynamic allocator exists here; `touched` against `fresh`, and `growing` on top, is what one would pay.
"""

import statistics
import time
from dataclasses import dataclass

import numpy as np

from halfline.bench.steps import blocks_for, prefill_seconds
from halfline.model.executor import Executor
from halfline.model.spec import ModelSpec

NUM_TOKENS = 512
# Pages may be 2 MiB: blocks that are to be fresh lie at least so far from all that were touched.
_PAGE_BYTES = 2 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstToken:
    """Seconds, medians."""

    touched: float
    fresh: float
    growing: float


def blocks_needed(spec: ModelSpec, looks: int) -> int:
    """How many blocks the executor of `measure_first_token` must have."""
    return _stride(spec) * (looks + 1)


def measure_first_token(executor: Executor, looks: int) -> FirstToken:
    """`executor` must be new: none of its blocks touched, at least blocks_needed."""
    stride = _stride(executor.spec)
    prefill_seconds(executor, NUM_TOKENS)  # touches the engine's own buffers and the first blocks
    touched, fresh = [], []
    for look in range(looks):
        fresh.append(prefill_seconds(executor, NUM_TOKENS, first_block=(look + 1) * stride))
        touched.append(prefill_seconds(executor, NUM_TOKENS))
    token_bytes = _layer_block_bytes(executor.spec) // 16 * executor.spec.num_layers
    growing = [_growing_seconds(NUM_TOKENS * token_bytes) for _ in range(looks)]
    return FirstToken(
        touched=statistics.median(touched), fresh=statistics.median(fresh), growing=statistics.median(growing)
    )


def _stride(spec: ModelSpec) -> int:
    """Blocks from one prefill's first to the next one's, so that they share no page of any layer."""
    page = -(-_PAGE_BYTES // _layer_block_bytes(spec))
    return blocks_for(NUM_TOKENS) + page


def _layer_block_bytes(spec: ModelSpec) -> int:
    """Keys and values of 16 places in fp16."""
    return 2 * spec.kv_size * 16 * 2


def _growing_seconds(num_bytes: int) -> float:
    began = time.perf_counter()
    piece = np.empty(num_bytes, dtype=np.uint8)
    piece.fill(1)
    larger = np.empty(2 * num_bytes, dtype=np.uint8)
    larger[:num_bytes] = piece
    return time.perf_counter() - began
