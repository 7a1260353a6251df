"""The GGUF container, versions 2 and 3: typed values by key, tensors by their stored name, all of it mapped.

    "GGUF" | version u32 | tensors u64 | values u64                                 little-endian throughout
    values x  key string | type u32 | value        a string is a u64 length and bytes
    tensors x name string | dims u32 | sizes u64 ... | format u32 | offset u64     sizes: innermost first
    padding to the alignment | tensor data, each at its offset from here

Opening only walks the header: arrays, of which a vocabulary is made, are stepped over and decoded when asked for.
Every count is held against the bytes that are left before anything is made of it, so a damaged header costs no more
than its own size. Knows no model: `gguf_checkpoint.py` gives keys and tensors their meaning.
"""

import math
import mmap
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfline.errors import DamagedModel, UnsupportedModel
from halfline.model.checkpoint import Tensor, TensorFormat

Scalar = int | float | bool | str

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_MAX_DIMENSIONS = 4

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_BOOL, _STRING, _ARRAY = 7, 8, 9
_SCALARS: dict[int, np.dtype[Any]] = {
    0: np.dtype("u1"),
    1: np.dtype("i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    _BOOL: np.dtype("u1"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}

# The shortest a string, a value and a tensor description can be: what a claimed count is held against.
_MIN_STRING_BYTES = 8
_MIN_VALUE_BYTES = _MIN_STRING_BYTES + 4 + 1
_MIN_TENSOR_BYTES = _MIN_STRING_BYTES + 4 + 4 + 8

# Formats other programs write and we do not read, for the message.
_FOREIGN_FORMATS = {
    6: "Q5_0",
    7: "Q5_1",
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    28: "F64",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
}


@dataclass(frozen=True, slots=True)
class _Value:
    """Where a value lies: `count` items of `type` from `start`; None is a single one, not an array."""

    type: int
    count: int | None
    start: int


@dataclass(frozen=True, slots=True)
class _StoredTensor:
    format: int
    shape: tuple[int, ...]
    offset: int


class GgufFile:
    """One mapped file; it stays mapped until this object and the last of its tensors are gone."""

    def __init__(self, path: Path) -> None:
        """Raises DamagedModel when the header contradicts itself, UnsupportedModel for versions it does not know."""
        with path.open("rb") as file:
            if file.seek(0, 2) == 0:
                raise DamagedModel(str(path), "the file is empty")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        header = _Header(str(path), self._map)
        self.source = header.source
        self._values = header.values
        self._tensors = header.tensors
        self._data = np.frombuffer(self._map, dtype=np.uint8)[header.data_start :]

    def scalars(self, prefix: str) -> dict[str, Scalar]:
        """The single numbers, truths and texts under the keys that begin so."""
        return {
            key: self._scalar(key, value)
            for key, value in self._values.items()
            if key.startswith(prefix) and value.count is None
        }

    def strings(self, key: str) -> tuple[str, ...] | None:
        """An array of texts, decoded now; None when the key is absent or holds something else."""
        value = self._values.get(key)
        if value is None or value.count is None or value.type != _STRING:
            return None
        return tuple(self._strings(key, value.start, value.count))

    def numbers(self, key: str) -> NDArray[Any] | None:
        """An array of numbers, as a view; None when the key is absent or holds something else."""
        value = self._values.get(key)
        if value is None or value.count is None or value.type == _STRING:
            return None
        return np.frombuffer(self._map, _SCALARS[value.type], value.count, value.start)

    def names(self) -> Iterable[str]:
        return self._tensors.keys()

    def tensor(self, name: str) -> Tensor:
        """A view of the mapped file. Raises KeyError for a name that is not in `names()`."""
        stored = self._tensors[name]
        tensor_format = self._format(name, stored)
        values_per_row = stored.shape[-1]
        if values_per_row % tensor_format.block_values:
            raise DamagedModel(
                self.source,
                f"rows of {name!r} have {values_per_row} values, {tensor_format.name} needs a multiple of"
                f" {tensor_format.block_values}",
            )
        row_bytes = values_per_row // tensor_format.block_values * tensor_format.block_bytes
        num_rows = math.prod(stored.shape[:-1])
        stop = stored.offset + num_rows * row_bytes
        if stop > len(self._data):
            raise DamagedModel(
                self.source,
                f"{name!r} ends {stop - len(self._data)} bytes past the end of the file (truncated?)",
            )
        data = self._data[stored.offset : stop].reshape(num_rows, row_bytes)
        return Tensor(name, tensor_format, stored.shape, data)

    def _format(self, name: str, stored: _StoredTensor) -> TensorFormat:
        try:
            return TensorFormat(stored.format)
        except ValueError:
            found = _FOREIGN_FORMATS.get(stored.format, f"number {stored.format}")
            supported = ", ".join(known.name for known in TensorFormat)
            raise UnsupportedModel(
                self.source, f"{name!r} is stored as {found}; the formats supported are {supported}"
            ) from None

    def _scalar(self, key: str, value: _Value) -> Scalar:
        if value.type == _STRING:
            return self._strings(key, value.start, 1)[0]
        number: int | float = np.frombuffer(self._map, _SCALARS[value.type], 1, value.start)[0].item()
        return bool(number) if value.type == _BOOL else number

    def _strings(self, key: str, at: int, count: int) -> list[str]:
        texts = []
        for _ in range(count):
            (length,) = _U64.unpack_from(self._map, at)
            at += 8 + length
            texts.append(self._map[at - length : at])
        try:
            return [text.decode() for text in texts]
        except UnicodeDecodeError as error:
            raise DamagedModel(self.source, f"{key!r} holds text that is not UTF-8") from error


class _Header:
    """One walk over the header. Reads past the end of the file surface as DamagedModel."""

    def __init__(self, source: str, data: mmap.mmap) -> None:
        self.source = source
        self._bytes = data
        self._at = len(_MAGIC)
        self.values: dict[str, _Value] = {}
        self.tensors: dict[str, _StoredTensor] = {}
        try:
            num_tensors, num_values = self._read_start()
            self._read_all(num_values, _MIN_VALUE_BYTES, "values", self._read_value)
            self._read_all(num_tensors, _MIN_TENSOR_BYTES, "tensors", self._read_tensor)
        except (struct.error, OverflowError) as error:
            raise self._damaged("the file ends inside its header") from error
        self.data_start = self._data_start()

    def _read_start(self) -> tuple[int, int]:
        if self._bytes[: len(_MAGIC)] != _MAGIC:
            raise self._damaged(f"a GGUF file begins with {_MAGIC!r}, this one with {self._bytes[:4]!r}")
        version = self._u32()
        if version not in _VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            found = f"{swapped}, big-endian" if swapped in _VERSIONS else str(version)
            raise UnsupportedModel(
                self.source, f"GGUF version {found}; versions 2 and 3, little-endian, are read"
            )
        return self._u64(), self._u64()

    def _read_all(self, count: int, min_bytes: int, what: str, read_one: Callable[[], None]) -> None:
        self._require(count * min_bytes, f"{count} {what}")
        for _ in range(count):
            read_one()

    def _read_value(self) -> None:
        key = self._name()
        if key in self.values:
            raise self._damaged(f"the key {key!r} appears twice")
        kind = self._u32()
        count = None
        if kind == _ARRAY:
            kind, count = self._u32(), self._u64()
            if kind == _ARRAY:
                raise UnsupportedModel(self.source, f"{key!r} is an array of arrays")
        self.values[key] = _Value(kind, count, self._at)
        self._skip(key, kind, 1 if count is None else count)

    def _skip(self, key: str, kind: int, count: int) -> None:
        if kind == _STRING:
            self._require(count * _MIN_STRING_BYTES, f"{count} strings of {key!r}")
            # The one hot loop of opening: a vocabulary and its merges are some 100,000 strings.
            data, at, read_length = self._bytes, self._at, _U64.unpack_from
            for _ in range(count):
                at += 8 + read_length(data, at)[0]
            self._at = at
            self._require(0, f"longer strings of {key!r}")
        elif kind in _SCALARS:
            num_bytes = count * _SCALARS[kind].itemsize
            self._require(num_bytes, f"{count} numbers of {key!r}")
            self._at += num_bytes
        else:
            raise self._damaged(f"{key!r} has the type number {kind}, which GGUF does not define")

    def _read_tensor(self) -> None:
        name = self._name()
        if name in self.tensors:
            raise self._damaged(f"the tensor {name!r} appears twice")
        num_dimensions = self._u32()
        if not 1 <= num_dimensions <= _MAX_DIMENSIONS:
            raise self._damaged(f"{name!r} has {num_dimensions} dimensions")
        shape = tuple(self._u64() for _ in range(num_dimensions))[::-1]
        if 0 in shape:
            raise self._damaged(f"{name!r} has the shape {shape}")
        self.tensors[name] = _StoredTensor(self._u32(), shape, self._u64())

    def _data_start(self) -> int:
        alignment = _DEFAULT_ALIGNMENT
        value = self.values.get("general.alignment")
        if value is not None:
            if value.type != 4 or value.count is not None:
                raise self._damaged("general.alignment is not a u32")
            (alignment,) = _U32.unpack_from(self._bytes, value.start)
            if alignment == 0 or alignment & (alignment - 1):
                raise self._damaged(f"general.alignment is {alignment}, which is no power of two")
        return -(-self._at // alignment) * alignment

    def _name(self) -> str:
        length = self._u64()
        self._require(length, f"a name of {length} bytes")
        start, self._at = self._at, self._at + length
        try:
            return self._bytes[start : self._at].decode()
        except UnicodeDecodeError as error:
            raise self._damaged("a name in the header is not UTF-8") from error

    def _u32(self) -> int:
        self._at += 4
        return int(_U32.unpack_from(self._bytes, self._at - 4)[0])

    def _u64(self) -> int:
        self._at += 8
        return int(_U64.unpack_from(self._bytes, self._at - 8)[0])

    def _require(self, num_bytes: int, what: str) -> None:
        left = len(self._bytes) - self._at
        if num_bytes > left:
            raise self._damaged(f"the header claims {what}, but the file ends before (truncated?)")

    def _damaged(self, reason: str) -> DamagedModel:
        return DamagedModel(self.source, reason)
