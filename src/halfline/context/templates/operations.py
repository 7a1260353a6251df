"""What a template does with values: filters and comparisons, each paid for before it is done.

A step is a piece of work that takes less than a microsecond or two: a few nodes of the template, a look at 64
characters, 512 comparisons of a search. None is larger than the whole budget, so a rendering ends within a fraction
of a second whatever its template and its values are. Knows nothing of the language these are said in.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any

_MAX_STEPS = 100_000
_READ = 64  # characters looked at, or copied, in a step
_SEARCHED = 512  # comparisons of characters in a step
_LINES = 8  # indented in a step
_NODES = 8  # of a loop's body that are run in a step
_MAX_INDENT = 16


class Budget:
    """What one rendering may still do."""

    def __init__(self) -> None:
        self._left = _MAX_STEPS

    def spend(self, steps: int) -> None:
        """Raises ValueError where no such many are left."""
        self._left -= steps
        if self._left < 0:
            raise ValueError(f"it takes more than {_MAX_STEPS} steps")


def shown(value: object) -> str:
    """Raises ValueError for what is no text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("a list or a table is no text; loop over it")


def turns(budget: Budget, value: object, num_nodes: int) -> list[object]:
    """What a loop goes over, paid for with all that its body of so many nodes will do but for loops in it."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError("a loop needs a list")
    budget.spend(1 + len(value) * (1 + num_nodes // _NODES))
    return value


def compared(budget: Budget, left: object, *others: object) -> bool:
    """`others` are an operator and what is right of it, again and again: a < b < c."""
    for name, right in zip(others[::2], others[1::2], strict=True):
        if not _holds(budget, left, str(name), right):
            return False
        left = right
    return True


_ORDERS: Mapping[str, Callable[[Any, Any], object]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
}


def _holds(budget: Budget, left: object, name: str, right: object) -> bool:
    if name in ("in", "notin"):
        return _within(budget, left, right) == (name == "in")
    if isinstance(left, str) and isinstance(right, str):
        budget.spend(1 + min(len(left), len(right)) // _READ)
    else:
        _pay_whole(budget, left)
    return bool(_ORDERS[name](left, right))


def _pay_whole(budget: Budget, value: object) -> None:
    """For a list or a table with everything in it."""
    stack = [value]
    while stack:
        each = stack.pop()
        budget.spend(1 + (len(each) // _READ if isinstance(each, str) else 0))
        if isinstance(each, dict):
            stack += (*each, *each.values())
        elif isinstance(each, list):
            stack += each


def _within(budget: Budget, value: object, whole: object) -> bool:
    if isinstance(whole, list):
        return any(_holds(budget, value, "eq", each) for each in whole)
    if isinstance(whole, str) and isinstance(value, str):
        # Most searches are linear; which are not is nothing that Python promises.
        num_places = max(0, len(whole) - len(value) + 1)
        budget.spend(1 + (len(whole) + len(value)) // _READ + num_places * len(value) // _SEARCHED)
    return operator.contains(whole, value)  # type: ignore[arg-type]  # a TypeError where it is none of these


def _read(budget: Budget, value: object) -> str:
    """The value as text, paid for."""
    text = shown(value)
    budget.spend(1 + len(text) // _READ)
    return text


def _default(budget: Budget, value: object, otherwise: object = "") -> object:
    """Also for an empty text, which is as good as none."""
    return otherwise if value is None or (isinstance(value, str) and not value) else value


def _indent(budget: Budget, value: object, width: int = 4) -> str:
    """All lines but the first and the empty ones."""
    if not isinstance(width, int) or not 0 <= width <= _MAX_INDENT:
        raise ValueError(f"indent takes at most {_MAX_INDENT}")
    text = _read(budget, value)
    budget.spend(text.count("\n") // _LINES)
    first, *others = text.split("\n")
    return "\n".join([first, *(" " * width + line if line.strip() else line for line in others)])


def _join(budget: Budget, value: object, between: object = "") -> str:
    texts = [_read(budget, each) for each in turns(budget, value, 0)]
    separator = shown(between)
    budget.spend(len(separator) * len(texts) // _READ)
    return separator.join(texts)


def _first(budget: Budget, value: object) -> object:
    return value[0] if isinstance(value, list) and value else None


def _last(budget: Budget, value: object) -> object:
    return value[-1] if isinstance(value, list) and value else None


def _length(budget: Budget, value: object) -> int:
    return len(value) if isinstance(value, str | list | dict) else 0


FILTERS: Mapping[str, Callable[..., object]] = {
    "default": _default,
    "first": _first,
    "indent": _indent,
    "join": _join,
    "last": _last,
    "length": _length,
    "lower": lambda budget, value: _read(budget, value).lower(),
    "trim": lambda budget, value: _read(budget, value).strip(),
    "upper": lambda budget, value: _read(budget, value).upper(),
}
