"""A recorded way from one text to another: every change in order, and the keystrokes it amounts to.

Knows where changes come from only as far as `load` reads the editing traces' format; git is git_history's matter.
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from halfline.bench.keystrokes import Keystroke


class Edit(NamedTuple):
    """`num_deleted` characters from `place` on go, `inserted` comes in their stead."""

    place: int
    num_deleted: int
    inserted: str


Transaction = tuple[Edit, ...]
"""What one keystroke changes, one edit after the other; the cursor then stands behind the last one's text."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One file's history. `path` is what an editor would call the file."""

    path: str
    start: str
    transactions: Sequence[Transaction]

    def stretch(self, first: int, num_keystrokes: int) -> "Stretch":
        """From transaction `first` on, fewer at the end of the trace. Raises ValueError beyond it."""
        if not 0 <= first < len(self.transactions):
            raise ValueError(
                f"transaction {first} of {self.path} was asked for, it has {len(self.transactions)}"
            )
        text = self.start
        for transaction in self.transactions[:first]:
            text = applied(text, transaction)
        stop = min(first + num_keystrokes, len(self.transactions))
        return Stretch(self, first, stop, text)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Transactions [first, stop) of a trace, and the text they begin with."""

    trace: Trace
    first: int
    stop: int
    text: str

    def keystrokes(self) -> Iterator[Keystroke]:
        """The document after each transaction, cut at the cursor."""
        text = self.text
        for number in range(self.first, self.stop):
            transaction = self.trace.transactions[number]
            text = applied(text, transaction)
            last = transaction[-1]
            cursor = last.place + len(last.inserted)
            yield Keystroke(number, text[:cursor], text[cursor:])


def applied(text: str, transaction: Transaction) -> str:
    for place, num_deleted, inserted in transaction:
        text = text[:place] + inserted + text[place + num_deleted :]
    return text


def load(file: Path, path: str) -> Trace:
    """A trace in the format of josephg/editing-traces, with gzip or without. Raises OSError or ValueError."""
    data = file.read_bytes()
    try:
        found = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        transactions = [
            tuple(Edit(place, num_deleted, inserted) for place, num_deleted, inserted in each["patches"])
            for each in found["txns"]
        ]
        return Trace(path, found["startContent"], [each for each in transactions if each])
    except (EOFError, KeyError, TypeError, ValueError, gzip.BadGzipFile) as error:
        raise ValueError(f"{file.name} is no editing trace: {error!r}") from error
