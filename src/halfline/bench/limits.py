"""What the machine can do at most, measured: the rates that no kernel can beat.

Shared machines give more in one moment than in the next, so a limit is the best of a few short looks.
"""

from collections.abc import Callable
from dataclasses import dataclass

from halfline.native import _native

# Far beyond every cache of its own; a machine that shares its processor may still have part of it in one.
FAR_BYTES = 1 << 30
_LOOKS = 3
_SECONDS = 0.08


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bytes and operations per second; an operation is one multiplication or one addition."""

    num_threads: int
    near_bytes: int
    """Size of the buffer that `read_near` reads: what one decode step reads."""
    read_near_one: float
    """One thread, `near_bytes`."""
    read_near: float
    """All threads, `near_bytes`, which a large cache may hold."""
    read_far: float
    """All threads, FAR_BYTES: memory itself."""
    int8: float
    """Integer products, nothing else: the multipliers' peak."""
    int8_block: float
    """The same with the scale of every block of 32 paid for: what a block format can reach at most."""
    fma: float
    """Float fused multiply-adds."""


def measure_limits(isa: str, num_threads: int, near_bytes: int) -> Limits:
    """Takes about two seconds; `isa` is one of native.executor.available_isas()."""

    def ops(probe: Callable[[str, int, float], float]) -> float:
        return max(probe(isa, num_threads, _SECONDS) for _ in range(_LOOKS))

    def read(num_bytes: int, threads: int) -> float:
        return max(_native.read_bytes_per_s(num_bytes, threads, _SECONDS) for _ in range(_LOOKS))

    return Limits(
        num_threads=num_threads,
        near_bytes=near_bytes,
        read_near_one=read(near_bytes, 1),
        read_near=read(near_bytes, num_threads),
        read_far=_native.read_bytes_per_s(FAR_BYTES, num_threads, _SECONDS),
        int8=ops(_native.int8_ops_per_s),
        int8_block=ops(_native.int8_block_ops_per_s),
        fma=ops(_native.fma_ops_per_s),
    )
