"""Named values out of a model file's header, asked for by type and checked as they are read."""

from collections.abc import Mapping

from halfline.errors import DamagedModel

_MAX_INTEGER = 2**31 - 1
# Far wider than any constant of a model, and narrow enough that no arithmetic with two of them overflows.
_SMALLEST, _LARGEST = 1e-30, 1e30


class Facts:
    """A header's values as questions and answers; every question is asked for `prefix` + key.

    A question with a default takes it when nothing, or null, is there. Without one, and for a value of the wrong
    type or out of all reason, it raises DamagedModel naming the key.
    """

    def __init__(self, source: str, values: Mapping[str, object], prefix: str = "") -> None:
        self.source = source
        self.values = values
        self._prefix = prefix

    def integer(self, key: str, default: int | None = None, *, minimum: int = 1) -> int:
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= _MAX_INTEGER:
            raise self.damaged(f"{self._prefix + key!r} is {value!r}, not a whole number from {minimum}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A number above zero, of a size that can be reckoned with."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.damaged(f"{self._prefix + key!r} is {value!r}, not a number")
        if not _SMALLEST <= value <= _LARGEST:
            raise self.damaged(
                f"{self._prefix + key!r} is {value!r}, not a number above zero that makes sense"
            )
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.damaged(f"{self._prefix + key!r} is {value!r}, neither true nor false")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.damaged(f"{self._prefix + key!r} is {value!r}, not a text")
        return value

    def has(self, key: str) -> bool:
        """Whether something is there, null not being something."""
        return self.values.get(self._prefix + key) is not None

    def damaged(self, reason: str) -> DamagedModel:
        return DamagedModel(self.source, reason)

    def _value(self, key: str, default: object) -> object:
        value = self.values.get(self._prefix + key)
        if value is None:
            value = default
        if value is None:
            raise self.damaged(f"{self._prefix + key!r} is missing")
        return value
