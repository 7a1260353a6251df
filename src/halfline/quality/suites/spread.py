"""Some of many, evenly spread and always the same ones."""

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def spread(items: Sequence[Item], limit: int | None) -> list[Item]:
    """`limit` None, or more than there are: all."""
    if limit is None or limit >= len(items):
        return list(items)
    return [items[len(items) * number // limit] for number in range(limit)]
