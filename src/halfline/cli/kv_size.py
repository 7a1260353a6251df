"""How much memory the KV cache gets when nobody says."""

from pathlib import Path

from halfline.errors import BadSettings
from halfline.model.kv_format import BLOCK_TOKENS, KvFormat
from halfline.model.spec import ModelSpec

_MOST_BYTES = 1 << 30
_SHARE = 4


def default_kv_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    """A quarter of the available memory, at most 1 GiB; where the system does not say, 1 GiB."""
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
    except OSError:
        return _MOST_BYTES
    for line in lines:
        if line.startswith("MemAvailable:"):
            return min(_MOST_BYTES, int(line.split()[1]) * 1024 // _SHARE)
    return _MOST_BYTES


def kv_block_bytes(spec: ModelSpec, kv_format: KvFormat) -> int:
    """Bytes of one block, keys and values of all layers."""
    return spec.num_layers * spec.num_kv_heads * kv_format.head_bytes(spec.head_dim)


def blocks_in(kv_bytes: int, block_bytes: int) -> int:
    """Whole blocks that fit. Raises BadSettings when not even a short sequence would have room."""
    num_blocks = kv_bytes // block_bytes
    least = 4
    if num_blocks < least:
        raise BadSettings(
            f"kv_bytes is {kv_bytes}, which holds {num_blocks * BLOCK_TOKENS} tokens of this model;"
            f" it must be at least {least * block_bytes}"
        )
    return num_blocks
