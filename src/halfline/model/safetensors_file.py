"""The safetensors container, mapped: tensors are views of the file, BF16 included.

    header bytes u64 | header: {"name": {"dtype", "shape", "data_offsets": [start, stop)}, ...} | data

The `safetensors` package copies each tensor into numpy and has no BF16 there, hence our own reading of the header.
"""

import math
import mmap
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from halfline.errors import DamagedModel, UnsupportedModel
from halfline.model.checkpoint import Tensor, TensorFormat
from halfline.model.json_file import parse_json_object

_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 100_000_000  # the format's own limit
_FORMATS = {"F32": TensorFormat.F32, "F16": TensorFormat.F16, "BF16": TensorFormat.BF16}


class SafetensorsFile:
    """One mapped file; it stays mapped until this object and the last of its tensors are gone."""

    def __init__(self, path: Path) -> None:
        self._source = str(path)
        try:
            with path.open("rb") as file:
                length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
                size = file.seek(0, 2)
                if not 2 <= length <= min(_MAX_HEADER_BYTES, size - _LENGTH_BYTES):
                    raise self._damaged(f"a header of {length} bytes in a file of {size} (truncated?)")
                file.seek(_LENGTH_BYTES)
                header = parse_json_object(self._source, file.read(length))
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise self._damaged(f"the file cannot be read: {error.strerror}") from error
        header.pop("__metadata__", None)
        self._header = header
        self._data = np.frombuffer(mapped, dtype=np.uint8)[_LENGTH_BYTES + length :]

    def names(self) -> Iterable[str]:
        return self._header.keys()

    def tensor(self, name: str) -> Tensor:
        """Raises KeyError for a name that is not in `names()`."""
        entry = self._header[name]
        if not isinstance(entry, dict):
            raise self._damaged(f"{name!r} is described by {entry!r}")
        tensor_format = self._format(name, entry.get("dtype"))
        shape = self._integers(name, entry.get("shape"))
        offsets = self._integers(name, entry.get("data_offsets"))
        if not 1 <= len(shape) <= 4 or 0 in shape or len(offsets) != 2:
            raise self._damaged(f"{name!r} has the shape {shape} and the offsets {offsets}")
        start, stop = offsets
        num_bytes = math.prod(shape) * tensor_format.block_bytes
        if stop - start != num_bytes:
            raise self._damaged(f"{name!r} of shape {shape} takes {num_bytes} bytes, not {stop - start}")
        if stop > len(self._data):
            raise self._damaged(
                f"{name!r} ends {stop - len(self._data)} bytes past the file's end (truncated?)"
            )
        data = self._data[start:stop].reshape(math.prod(shape[:-1]), -1)
        return Tensor(name, tensor_format, shape, data)

    def _format(self, name: str, dtype: object) -> TensorFormat:
        found = _FORMATS.get(dtype) if isinstance(dtype, str) else None
        if found is None:
            raise UnsupportedModel(
                self._source, f"{name!r} is stored as {dtype!r}; supported are {', '.join(_FORMATS)}"
            )
        return found

    def _integers(self, name: str, values: object) -> tuple[int, ...]:
        if not isinstance(values, list) or not all(type(value) is int and value >= 0 for value in values):
            raise self._damaged(f"{name!r} has {values!r} where whole numbers belong")
        return tuple(values)

    def _damaged(self, reason: str) -> DamagedModel:
        return DamagedModel(self._source, reason)
