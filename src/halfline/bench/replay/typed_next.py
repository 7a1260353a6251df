"""What the user typed from a keystroke on, which is what an answer is compared with.

From the cursor on every change is followed for as long as it stays within what was typed there since: mistakes that
were put right again do not count, and what is typed elsewhere ends it. The text that then stands between the cursor
and what stood behind it is what the user typed next; a keystroke after which nothing was typed there judges no answer.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from halfline.bench.replay.trace import Transaction

MOST_TRANSACTIONS = 400  # two lines of code, corrections included
_MOST_LINES = 2  # the first is judged; in the second one still comes back to it


def typed_next(cursor: int, later: Iterable[Transaction]) -> str:
    """`later` are the transactions that follow, nearest first; `MOST_TRANSACTIONS` of them are enough."""
    grown = ""
    for place, num_deleted, inserted in chain.from_iterable(later):
        start = place - cursor
        if start < 0 or start + num_deleted > len(grown):
            break
        grown = grown[:start] + inserted + grown[start + num_deleted :]
        if grown.count("\n") > _MOST_LINES:
            break
    return grown


@dataclass(frozen=True, slots=True)
class Worth:
    """An answer beside what was typed, both up to their first line end, trailing blanks apart.

    `exact`: the same line. `common_prefix`: characters that both begin with. `kept`: characters of the answer, in
    order, that are also in what was typed: a user who took it whole would not have had to delete them. `shown`: the
    answer's characters.
    """

    exact: bool
    common_prefix: int
    kept: int
    shown: int


def worth(answer: str, typed: str) -> Worth:
    shown, wanted = _first_line(answer), _first_line(typed)
    matches = difflib.SequenceMatcher(None, shown, wanted, autojunk=False).get_matching_blocks()
    return Worth(
        exact=shown == wanted,
        common_prefix=_common(shown, wanted),
        kept=sum(match.size for match in matches),
        shown=len(shown),
    )


def _first_line(text: str) -> str:
    return text.partition("\n")[0].rstrip()


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
