"""One KV block as a file: its format, and what makes a file one of ours.

    offset  bytes
    0       8     b"hlkv" and the version, little endian
    8       32    scope: what computed the KV (model, format, program)
    40      32    the block's name (kv/names.py)
    72      32    its parent's name
    104     64    its tokens, int32
    168     8     number of data bytes
    176     n     the data, as the executor exported it
    176+n   32    keyed blake2b of everything before

A file is believed only as a whole: scope, name, tokens, length and checksum all have to be right. Nothing in it is
executed or sized by what it says.
"""

import struct
from dataclasses import dataclass
from hashlib import blake2b

from halfline.kv.names import NAME_BYTES
from halfline.kv.prefix_index import BLOCK_BYTES

VERSION = 1
SCOPE_BYTES = 32
_CHECK_BYTES = 32
_HEADER = struct.Struct(f"<4sI{SCOPE_BYTES}s{NAME_BYTES}s{NAME_BYTES}s{BLOCK_BYTES}sQ")
HEADER_BYTES = _HEADER.size
_MAGIC = b"hlkv"


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """Which block a file says it holds."""

    name: bytes
    parent_name: bytes
    tokens: bytes
    num_data_bytes: int

    @property
    def num_file_bytes(self) -> int:
        return HEADER_BYTES + self.num_data_bytes + _CHECK_BYTES


def pack_block(key: bytes, scope: bytes, header: BlockHeader, data: memoryview) -> list[bytes | memoryview]:
    """The file's parts, in order."""
    head = _HEADER.pack(
        _MAGIC, VERSION, scope, header.name, header.parent_name, header.tokens, header.num_data_bytes
    )
    return [head, data, _checksum(key, head, data)]


def read_header(scope: bytes, head: bytes) -> BlockHeader | None:
    """What the first HEADER_BYTES of a file say; None when it is none of this scope's and version's."""
    if len(head) < HEADER_BYTES:
        return None
    magic, version, its_scope, name, parent_name, tokens, num_data_bytes = _HEADER.unpack(head[:HEADER_BYTES])
    if (magic, version, its_scope) != (_MAGIC, VERSION, scope):
        return None
    return BlockHeader(name, parent_name, tokens, num_data_bytes)


def unpack_block(key: bytes, scope: bytes, content: bytes) -> tuple[BlockHeader, memoryview] | None:
    """What a file holds; None when anything about it is wrong."""
    header = read_header(scope, content)
    if header is None or header.num_file_bytes != len(content):
        return None
    data = memoryview(content)[HEADER_BYTES:-_CHECK_BYTES]
    if content[-_CHECK_BYTES:] != _checksum(key, content[:HEADER_BYTES], data):
        return None
    return header, data


def _checksum(key: bytes, head: bytes, data: memoryview) -> bytes:
    check = blake2b(head, key=key, digest_size=_CHECK_BYTES)
    check.update(data)
    return check.digest()
