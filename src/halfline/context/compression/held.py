"""Decisions that hold: what was kept of a part stays kept and what was dropped stays dropped, until the anchor moves.

Passes look at the cursor, at other parts and at a budget, all of which change with keystrokes; parts that changed their
minds with them would begin every prompt anew. So the decisions about a part are remembered, line by line. When the part
comes again, known by its path and its first line, they hold up to the first line that differs; only what follows is
decided anew.

`renew` moves the anchor: at a cold start, or when the prompt is read anew anyway.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from halfline.context.compression.passes import Budget, Dropped, Line, LinedPart, Pass, Shrunk

_MAX_PARTS = 64  # of one document
_MAX_CHARACTERS = 1 << 18  # of these


@dataclass(frozen=True, slots=True)
class _Decided:
    """The lines as they were given, and what became of each: its line, None if left out; and the reason if changed."""

    given: tuple[Line, ...]
    left: tuple[Line | None, ...]
    reasons: tuple[str | None, ...]
    num_characters: int


class HeldDecisions:
    """One document's."""

    def __init__(self) -> None:
        self._decided: OrderedDict[_Key, _Decided] = OrderedDict()

    def fork(self) -> "HeldDecisions":
        """One that knows the same and learns apart."""
        copy = HeldDecisions()
        copy._decided = OrderedDict(self._decided)
        return copy

    def renew(self) -> None:
        self._decided.clear()

    def shrink(self, chain: Pass, parts: Sequence[LinedPart], budget: Budget) -> Shrunk:
        """What `chain` says, but for what was decided before."""
        keys = _keys(parts)
        if any(self._is_new(key, part) for key, part in zip(keys, parts, strict=True)):
            fresh = _decisions(parts, chain.shrink(parts, budget))
            for key, decided in zip(keys, fresh, strict=True):
                self._decided[key] = _joined(self._decided.get(key), decided)
        for key in keys:
            self._decided.move_to_end(key)
        num_characters = sum(each.num_characters for each in self._decided.values())
        while len(self._decided) > len(keys) and (
            len(self._decided) > _MAX_PARTS or num_characters > _MAX_CHARACTERS
        ):
            num_characters -= self._decided.popitem(last=False)[1].num_characters
        return _shrunk(parts, [self._decided[key] for key in keys])

    def _is_new(self, key: "_Key", part: LinedPart) -> bool:
        known = self._decided.get(key)
        return known is None or known.given != part.lines


_Key = tuple[str | None, str, int]
"""Path, first line, and the number among parts that have both in common."""


def _keys(parts: Sequence[LinedPart]) -> list[_Key]:
    counts: Counter[tuple[str | None, str]] = Counter()
    keys = []
    for part in parts:
        name = part.path, part.lines[0].text if part.lines else ""
        keys.append((*name, counts[name]))
        counts[name] += 1
    return keys


def _decisions(parts: Sequence[LinedPart], shrunk: Shrunk) -> list[_Decided]:
    reasons = {(each.place, each.number): each.reason for each in shrunk.dropped}
    decided = []
    for place, (part, rest) in enumerate(zip(parts, shrunk.parts, strict=True)):
        left = {line.number: line for line in rest.lines}
        decided.append(
            _Decided(
                part.lines,
                tuple(left.get(line.number) for line in part.lines),
                tuple(reasons.get((place, line.number)) for line in part.lines),
                sum(len(line.text) for line in part.lines),
            )
        )
    return decided


def _joined(before: _Decided | None, now: _Decided) -> _Decided:
    if before is None:
        return now
    most = min(len(before.given), len(now.given))
    alike = next((i for i in range(most) if before.given[i] != now.given[i]), most)
    return replace(
        now,
        left=before.left[:alike] + now.left[alike:],
        reasons=before.reasons[:alike] + now.reasons[alike:],
    )


def _shrunk(parts: Sequence[LinedPart], decided: Sequence[_Decided]) -> Shrunk:
    left = tuple(
        LinedPart(part.path, tuple(line for line in each.left if line is not None))
        for part, each in zip(parts, decided, strict=True)
    )
    dropped = tuple(
        Dropped(place, line.number, reason)
        for place, each in enumerate(decided)
        for line, reason in zip(each.given, each.reasons, strict=True)
        if reason is not None
    )
    return Shrunk(left, dropped)
