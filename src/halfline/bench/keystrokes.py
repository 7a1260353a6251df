"""Keystrokes out of a recorded editing session: what stood before and behind the cursor after each.

Knows the trace's format (patches: place, characters deleted, characters inserted), no tokens.
"""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Keystroke:
    """The document after transaction number `transaction`, cut at the cursor."""

    transaction: int
    prefix: str
    suffix: str

    def window(self, num_lines: int) -> tuple[str, str]:
        """The last `num_lines` lines before the cursor, and what stands before them."""
        lines = self.prefix.splitlines(keepends=True)
        if self.prefix.endswith("\n") or not lines:
            lines.append("")  # the cursor's own line
        start = len(self.prefix) - sum(map(len, lines[-num_lines:]))
        return self.prefix[start:], self.prefix[:start]


def replay(trace: Path, transactions: range, stretch: int) -> Iterator[Keystroke]:
    """`stretch` keystrokes in a row from each of the transactions on. Raises OSError or ValueError for a bad file."""
    wanted = {first + offset for first in transactions for offset in range(stretch)}
    document, cursor = "", 0
    for number, transaction in enumerate(json.loads(gzip.decompress(trace.read_bytes()))["txns"]):
        for place, num_deleted, inserted in transaction["patches"]:
            document = document[:place] + inserted + document[place + num_deleted :]
            cursor = place + len(inserted)
        if number in wanted:
            yield Keystroke(number, document[:cursor], document[cursor:])
