"""What followed the last few tokens where they came up before, in one text that grows and shrinks at its end.

Hash chains, as deflate has them: each pair of tokens leads to the place behind its latest occurrence, and each such
place to the one behind the occurrence before.

    place      0  1  2  3  4  5  6  7        what follows [… B C]?
    token      A  B  C  D  B  C  E  .        latest[B C] = 6, earlier[6] = 3: E, or D
                        └───────┴─ earlier

Appending and taking away cost O(1) per token. A look-up follows a bounded number of links and compares a bounded
number of tokens.
Knows tokens only; neither where they come from nor whether guesses come true.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

MAX_MATCHED = 16
"""Longer matches are not told apart."""

_MAX_CANDIDATES = 8


@dataclass(frozen=True, slots=True)
class Repeat:
    """The tokens from `place` on follow the same `num_matched` tokens that were asked about."""

    place: int
    num_matched: int


class Repeats:
    """Finds repeats in the tokens appended so far. Look-ups change nothing; one thread appends."""

    def __init__(self, token_ids: Sequence[int] = ()) -> None:
        self._token_ids: list[int] = []
        self._latest: dict[tuple[int, int], int] = {}  # by pair: the place behind it
        self._earlier: list[int | None] = []  # by place: the one behind the same pair, one occurrence before
        self._latest_single: dict[int, int] = {}  # by token, as far as no repeat of a pair is known
        self.extend(token_ids)

    def __len__(self) -> int:
        return len(self._token_ids)

    def extend(self, token_ids: Sequence[int]) -> None:
        """Append tokens. A pair can be found once there is a token behind it."""
        first = max(0, len(self._token_ids) - 2)
        self._token_ids += token_ids
        latest, earlier = self._latest, self._earlier
        earlier += [None] * (min(2, len(self._token_ids)) - len(earlier))
        tail = self._token_ids[first:]
        for place, pair in enumerate(pairwise(tail[:-1]), first + 2):
            earlier.append(latest.get(pair))
            latest[pair] = place
        self._latest_single.update(zip(tail[:-1], range(first + 1, first + len(tail)), strict=True))

    def become(self, token_ids: list[int], num_common: int) -> None:
        """Have exactly these tokens, of which the first `num_common` are alike; costs what differs."""
        for place in range(len(self._token_ids) - 1, max(num_common, 2) - 1, -1):
            earlier = self._earlier.pop()
            pair = (self._token_ids[place - 2], self._token_ids[place - 1])
            if earlier is None:
                del self._latest[pair]
            else:
                self._latest[pair] = earlier
        del self._token_ids[num_common:], self._earlier[num_common:]
        self.extend(token_ids[num_common:])

    def num_alike(self, token_ids: list[int]) -> int:
        """Length of the beginning that both have, by halving: comparing slices is far faster than comparing tokens."""
        low, high = 0, min(len(self._token_ids), len(token_ids))
        while low < high:
            middle = (low + high + 1) // 2
            if self._token_ids[low:middle] == token_ids[low:middle]:
                low = middle
            else:
                high = middle - 1
        return low

    def find(self, recent: Sequence[int]) -> Repeat | None:
        """The longest match for the last tokens of `recent`, the latest among equals; None when there is none."""
        best: Repeat | None = None
        place = self._latest.get((recent[-2], recent[-1])) if len(recent) > 1 else None
        for _ in range(_MAX_CANDIDATES):
            if place is None:
                break
            num_matched = self._num_matched(recent, place)
            if best is None or num_matched > best.num_matched:
                best = Repeat(place, num_matched)
                if num_matched == MAX_MATCHED:
                    break
            place = self._earlier[place]
        return best or self._single(recent[-1])

    def after(self, place: int, count: int) -> tuple[int, ...]:
        """At most `count` tokens from `place` on."""
        return tuple(self._token_ids[place : place + count])

    def onward(self, place: int, count: int) -> tuple[int, ...]:
        """`count` tokens from `place` on, if the text goes on as it did from there: round and round if need be."""
        found = self._token_ids[place : place + count]
        while len(found) < count:
            found += found[: count - len(found)]
        return tuple(found)

    def _single(self, token_id: int) -> Repeat | None:
        place = self._latest_single.get(token_id)
        # Tokens taken away leave their places behind: look again whether the token is there.
        if place is None or place >= len(self._token_ids) or self._token_ids[place - 1] != token_id:
            return None
        return Repeat(place, 1)

    def _num_matched(self, recent: Sequence[int], place: int) -> int:
        """How many tokens before `place` equal the last of `recent`; two are known to."""
        limit = min(MAX_MATCHED, len(recent), place)
        for count in range(2, limit):
            if recent[-1 - count] != self._token_ids[place - 1 - count]:
                return count
        return limit
