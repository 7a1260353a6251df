"""What looking up, publishing and giving back KV blocks costs, without any model.

Per block the look-up encodes 16 tokens, hashes 64 bytes and compares them: a few hundred nanoseconds in an interpreted
program. What it saves per block is computing 16 tokens, which takes tens of milliseconds.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from halfline.kv.block_pool import BlockPool
from halfline.kv.block_table import BlockTable
from halfline.kv.prefix_index import PrefixIndex
from halfline.model.executor import BLOCK_TOKENS

NUM_TOKENS = 8192
_VOCAB = 49152


@dataclass(frozen=True, slots=True, kw_only=True)
class HitPath:
    """Milliseconds of processor time for a prompt of NUM_TOKENS, each a list with one entry per look.

    `first`: its tokens are encoded and all of it is found. `again`: as for a prompt that waits and is looked up at
    every step. `adopt`: held, and the copy of its last block begun. `release` is after the answer.
    """

    first: list[float]
    again: list[float]
    adopt: list[float]
    release: list[float]
    publish: list[float]


def measure_hit_path(looks: int) -> HitPath:
    """Every look has an index of its own for publishing, and one that knows the whole prompt for finding."""
    generator = random.Random(0)
    tokens = [generator.randrange(_VOCAB) for _ in range(NUM_TOKENS)]
    path = HitPath(first=[], again=[], adopt=[], release=[], publish=[])
    for _ in range(looks):
        pool, index = BlockPool(NUM_TOKENS // BLOCK_TOKENS + 1), PrefixIndex()
        writer, reader = (BlockTable(pool, index, "bench") for _ in range(2))
        writer.grow(NUM_TOKENS)
        with _timed(path.publish):
            writer.publish(tokens, NUM_TOKENS)
        writer.release()
        with _timed(path.first):
            reader.match(tokens)
        with _timed(path.again):
            match = reader.match(tokens)
        with _timed(path.adopt):
            reader.adopt(match)
        with _timed(path.release):
            reader.release()
    return path


@contextmanager
def _timed(times_ms: list[float]) -> Iterator[None]:
    started = time.thread_time()
    yield
    times_ms.append((time.thread_time() - started) * 1e3)
