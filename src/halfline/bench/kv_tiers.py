"""How fast blocks leave the arena and come back: memory, a directory, and whether compressing them would pay.

On a CPU the arena is host memory already, so a host pool could only hold more if it held blocks compressed: worth it
when packing saves much and unpacking is far faster than computing. Both are measured here on real KV.
"""

import shutil
import tempfile
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from halfline.bench.steps import fill
from halfline.kv.block_file import SCOPE_BYTES, BlockHeader
from halfline.kv.disk_store import DiskStore
from halfline.kv.prefix_index import Node, token_blocks
from halfline.model.executor import BLOCK_TOKENS
from halfline.native.executor import NativeExecutor


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """Bytes per second. `packed_share`: size after zlib level 1 on bytes sorted by significance, of the size before."""

    block_bytes: int
    num_blocks: int
    copy: float
    export: float
    import_: float
    disk_write: float
    disk_read: float
    pack: float
    unpack: float
    packed_share: float


def measure_tiers(executor: NativeExecutor, num_blocks: int) -> Tiers:
    """`executor` has at least 2 × `num_blocks` blocks; files go to a temporary folder."""
    fill(executor, 1, num_blocks * BLOCK_TOKENS, num_blocks)
    sources, targets = list(range(num_blocks)), list(range(num_blocks, 2 * num_blocks))
    executor.copy_blocks(sources, targets)  # touches the targets
    num_bytes = num_blocks * executor.block_bytes

    started = time.perf_counter()
    executor.copy_blocks(sources, targets)
    copied = time.perf_counter()
    blocks = [executor.export_blocks([block_id])[0] for block_id in sources]
    exported = time.perf_counter()
    executor.import_blocks(targets, np.stack(blocks))
    imported = time.perf_counter()
    write_s, read_s = _disk_seconds(blocks)
    pack_s, unpack_s, packed_bytes = _packing(blocks)
    return Tiers(
        block_bytes=executor.block_bytes,
        num_blocks=num_blocks,
        copy=num_bytes / (copied - started),
        export=num_bytes / (exported - copied),
        import_=num_bytes / (imported - exported),
        disk_write=num_bytes / write_s,
        disk_read=num_bytes / read_s,
        pack=num_bytes / pack_s,
        unpack=num_bytes / unpack_s,
        packed_share=packed_bytes / num_bytes,
    )


def _disk_seconds(blocks: list[NDArray[np.uint8]]) -> tuple[float, float]:
    """Writing all, then reading all; from the system's cache, as after a restart of the server."""
    directory = Path(tempfile.mkdtemp())
    try:
        store = DiskStore(directory / "kv", bytes(SCOPE_BYTES), 1 << 40)
        chain = [store.names.of(Node(None, b"bench"))]
        tokens = [token_blocks([number] * BLOCK_TOKENS)[0] for number in range(len(blocks))]
        started = time.perf_counter()
        for block, held in zip(blocks, tokens, strict=True):
            chain.append(store.names.behind(chain[-1], held))
            store.write(BlockHeader(chain[-1], chain[-2], held, block.nbytes), block.data.cast("B"))
        written = time.perf_counter()
        for name, held in zip(chain[1:], tokens, strict=True):
            store.read(name, held)
        read = time.perf_counter()
        store.close()
    finally:
        shutil.rmtree(directory)
    return written - started, read - written


def _packing(blocks: list[NDArray[np.uint8]]) -> tuple[float, float, int]:
    """Seconds to pack and to unpack all, bytes when packed."""
    started = time.perf_counter()
    # Exponents beside exponents: interleaved with mantissas they hardly compress at all.
    packed = [zlib.compress(block.reshape(-1, 2).T.tobytes(), 1) for block in blocks]
    done = time.perf_counter()
    for each in packed:
        np.frombuffer(zlib.decompress(each), np.uint8).reshape(2, -1).T.tobytes()
    return done - started, time.perf_counter() - done, sum(map(len, packed))
