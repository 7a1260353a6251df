"""What a pass takes and gives: parts cut into lines, a budget, and a ledger of what was dropped and why.

A pass never invents an order and never cuts within an identifier: it leaves lines out, or shortens them by whole words.
Lines keep their number in the part, so that what was left out can be told, and told again at the next keystroke.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from halfline.context.sources.definitions import lines_of
from halfline.request import Part

_MAX_KNOWN_LINES = 1 << 15  # whose tokens are remembered
_MAX_KNOWN_CHARACTERS = 512  # of each: a minified file is one line, and another one with every edit


@dataclass(frozen=True, slots=True)
class Line:
    """`text` with its end, as it stands now; `number` is its place in the part as it was given, from 0."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class LinedPart:
    """What is left of a piece of another file. `path` None: nobody says which."""

    path: str | None
    lines: tuple[Line, ...]

    @property
    def text(self) -> str:
        return "".join(line.text for line in self.lines)


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens that the parts must fit, for passes that can choose how much they leave out; and the text around the
    cursor, `before` and `behind`, that the parts are read for, with its file's `path`, where that is known. `room` is
    what the prompt has for them and their paths, for the pass that chooses what stands there.
    """

    num_tokens: int
    before: str = ""
    behind: str = ""
    path: str | None = None
    room: int = 0


@dataclass(frozen=True, slots=True)
class Dropped:
    """A line that was left out, or shortened, of the part at `place` of those given."""

    place: int
    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Shrunk:
    """As many parts as were given, in their order; some may have no line left."""

    parts: tuple[LinedPart, ...]
    dropped: tuple[Dropped, ...]

    def reasons(self) -> Mapping[str, int]:
        """How many lines were left out or shortened, by reason."""
        return dict(Counter(each.reason for each in self.dropped))


class Pass(Protocol):
    """One rewrite that shrinks parts. The same parts and budget give the same result."""

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk: ...


class Chain:
    """One pass after the other; a budget is everybody's."""

    def __init__(self, passes: Sequence[Pass]) -> None:
        self._passes = tuple(passes)

    def shrink(self, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        dropped: list[Dropped] = []
        for each in self._passes:
            result = each.shrink(parts, budget)
            parts = result.parts
            dropped += result.dropped
        return Shrunk(tuple(parts), tuple(dropped))


class LineTokens:
    """The tokens of single lines; the latest are remembered, as the same files come with every keystroke."""

    def __init__(self, encode: Callable[[str], Sequence[int]]) -> None:
        def as_tuple(text: str) -> tuple[int, ...]:
            return tuple(encode(text))

        self._encoded = as_tuple
        self._known = lru_cache(maxsize=_MAX_KNOWN_LINES)(as_tuple)

    def ids(self, text: str) -> tuple[int, ...]:
        return self._known(text) if len(text) <= _MAX_KNOWN_CHARACTERS else self._encoded(text)

    def count(self, parts: Sequence[LinedPart]) -> int:
        """What the parts cost, line by line: seldom a few more than when they are encoded whole."""
        return sum(len(self.ids(line.text)) for part in parts for line in part.lines)


def lined(part: Part) -> LinedPart:
    return LinedPart(part.path, tuple(Line(n, text) for n, text in enumerate(lines_of(part.text))))


def rewritten(parts: Sequence[LinedPart], texts: Sequence[Sequence[str | None]], reason: str) -> Shrunk:
    """Each line with its new text; None leaves it out. Whatever is not as it was is in the ledger."""
    left = []
    dropped = []
    for place, (part, new_texts) in enumerate(zip(parts, texts, strict=True)):
        lines = []
        for line, text in zip(part.lines, new_texts, strict=True):
            if text != line.text:
                dropped.append(Dropped(place, line.number, reason))
            if text is not None:
                lines.append(replace(line, text=text) if text != line.text else line)
        left.append(LinedPart(part.path, tuple(lines)))
    return Shrunk(tuple(left), tuple(dropped))


def without(parts: Sequence[LinedPart], places: set[tuple[int, int]], reason: str) -> Shrunk:
    """Without the lines at (place of the part, position in its `lines`)."""
    texts = [
        [None if (place, position) in places else line.text for position, line in enumerate(part.lines)]
        for place, part in enumerate(parts)
    ]
    return rewritten(parts, texts, reason)
