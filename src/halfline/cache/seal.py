"""A value that says itself whether it is whole, and whose it is."""

import struct
from hashlib import blake2b

from halfline.cache.memory import Kept

_DIGEST_BYTES = 16


def sealed(key: bytes, value: bytes) -> bytes:
    """The value behind a digest of it and its key."""
    return _digest(key, value) + value


def unsealed(key: bytes, data: bytes) -> bytes | None:
    """None when this is not what was sealed under that key."""
    digest, value = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    return value if digest == _digest(key, value) else None


def sealed_with_time(key: bytes, kept: Kept) -> bytes:
    """Where there is no other place for when it was stored."""
    return sealed(key, struct.pack("<d", kept.stored_at) + kept.value)


def unsealed_with_time(key: bytes, data: bytes) -> Kept | None:
    found = unsealed(key, data)
    if found is None or len(found) < 8:
        return None
    (stored_at,) = struct.unpack("<d", found[:8])
    return Kept(found[8:], stored_at)


def _digest(key: bytes, value: bytes) -> bytes:
    return blake2b(len(key).to_bytes(4, "little") + key + value, digest_size=_DIGEST_BYTES).digest()
