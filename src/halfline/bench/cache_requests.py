"""Which requests the replay of the caches makes: places in real code, asked again as users do, and as they nearly do.

A place is drawn by Zipf's law, then how it is asked:

    again     exactly as it stands
    fetch     by the address of its answer, if the client has one; else again
    typed     with a third or two thirds of its answer typed, if the client has one; else again
    renamed   with the variables of the function around it renamed, if there is one; else again
    edited    with another line somewhere before it

So what is asked "again" for the first time is new, and what was renamed or edited once is asked again exactly so.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import Literal

from halfline.cache.scope import scope_at
from halfline.document.syntax_tree import grammar_for

Way = Literal["again", "fetch", "typed", "renamed", "edited"]

MIX: Mapping[Way, float] = {"again": 0.40, "fetch": 0.15, "typed": 0.20, "renamed": 0.15, "edited": 0.10}
SKEW = 0.9
"""Zipf's exponent: the place of rank r is drawn in proportion to r to the power of minus this."""

_BEFORE, _BEHIND = 1500, 400  # characters: a cold window is about as long


@dataclass(frozen=True, slots=True)
class Place:
    """A cursor in a file."""

    source: str
    path: str
    before: str
    behind: str


def place(source: str, path: str, before: str, behind: str) -> Place:
    """Cut to what a client sends, at the start of a line."""
    if len(before) > _BEFORE:
        before = before[-_BEFORE:]
        before = before[before.find("\n") + 1 :]
    return Place(source, path, before, behind[:_BEHIND])


def drawn(places: Sequence[Place], count: int, seed: int) -> Iterator[tuple[Way, Place]]:
    """So many requests. The order of the places decides who is asked often, so it is drawn too."""
    draw = random.Random(seed)
    places = draw.sample(places, len(places))
    weights = list(accumulate((rank + 1) ** -SKEW for rank in range(len(places))))
    ways = list(MIX)
    for _ in range(count):
        (found,) = draw.choices(places, cum_weights=weights)
        (way,) = draw.choices(ways, weights=list(MIX.values()))
        yield way, found


@lru_cache(1024)
def renamed(found: Place) -> Place | None:
    """The same with every variable of the function around the cursor called otherwise; None where there is none."""
    grammar = grammar_for(found.path)
    scope = None if grammar is None else scope_at(found.before, found.behind, grammar)
    if scope is None or not scope.names:
        return None
    other = {name: f"{name}_{number}" for number, name in enumerate(scope.names)}
    words = re.compile(r"(?<![.\w])(" + "|".join(map(re.escape, other)) + r")\b")
    before, behind = (words.sub(lambda match: other[match[1]], text) for text in (found.before, found.behind))
    return replace(found, before=before, behind=behind, path=f"renamed/{found.path}")


def edited(found: Place) -> Place:
    """The same with one more line in the middle of what stands before the cursor."""
    middle = found.before.rfind("\n", 0, len(found.before) // 2) + 1
    hashes = "#" if found.path.endswith(".py") else "//"
    line = f"{hashes} to be looked at again\n"
    return replace(found, before=found.before[:middle] + line + found.before[middle:])
