"""The bytes each token stands for.

Byte-level BPE spells every byte as one printable character; SentencePiece spells a space as ▁ and the
bytes it has no character for as <0x00>…<0xFF>. Special and user defined tokens are spelt as they are.
"""

import re
from collections.abc import Callable

Spelling = Callable[[str], bytes]

_BYTE_TOKEN = re.compile("<0x([0-9A-Fa-f]{2})>")


def byte_level(text: str) -> bytes:
    """Bytes of a byte-level BPE token; one holding other characters than the 256 is spelt as it is."""
    try:
        return text.translate(_TO_LATIN1).encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def sentencepiece(text: str) -> bytes:
    byte = _BYTE_TOKEN.fullmatch(text)
    return bytes([int(byte[1], 16)]) if byte else text.replace("▁", " ").encode()


def byte_alphabet() -> dict[int, str]:
    """The character byte-level BPE writes for each byte: itself where it is printable, else from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


_UNUSED = dict.fromkeys(range(256), "\uffff")  # a Latin-1 character outside the alphabet is no byte
_TO_LATIN1 = _UNUSED | {ord(char): chr(byte) for byte, char in byte_alphabet().items()}
