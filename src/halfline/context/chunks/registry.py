"""Which chunks were seen, how often, and their tokens for which vocabularies: each is tokenised once.

    id       digest of the text: the same text in two files is one chunk
    kind     what it was first wanted for
    uses     how often its tokens were wanted
    tokens   by the vocabulary that made them: whatever models share it may share them

In memory, the latest used up to a bound, and where there is a file behind it (chunk_file.py) also after a restart. No
text is kept, but tokens say the same: whoever may read the file may read what was in the prompts.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, Protocol

Kind = Literal["file", "context", "head"]
"""A piece of another file before a document; a chunk of one in a task's context; a task's instructions."""

Tokens = tuple[int, ...]

_ROW_BYTES = 400  # what a row costs in memory beside its tokens
_TOKEN_BYTES = 36  # a pointer and a number
_FLUSH_AFTER = 64  # rows that changed


@dataclass(slots=True)
class ChunkRow:
    """`tokens` by vocabulary. Changed by the registry only."""

    id: bytes
    kind: Kind
    num_uses: int = 0
    tokens: dict[str, Tokens] = field(default_factory=dict)

    @property
    def vocabularies(self) -> list[str]:
        """For whose models nothing has to be tokenised."""
        return sorted(self.tokens)

    @property
    def num_bytes(self) -> int:
        return _ROW_BYTES + sum(_TOKEN_BYTES * len(tokens) for tokens in self.tokens.values())


class KeepsRows(Protocol):
    """Where rows outlive the process."""

    def read(self, chunk_id: bytes) -> ChunkRow | None:
        """None: it is not there, or not whole."""

    def write(self, rows: list[ChunkRow]) -> None:
        """In place of what was there. Raises nothing for what the disk does."""

    def close(self) -> None: ...


class ChunkRegistry:
    """`file` None: nothing outlives the process. Safe to share among threads."""

    def __init__(self, max_bytes: int, file: KeepsRows | None = None) -> None:
        self._max_bytes = max_bytes
        self._file = file
        self._rows: OrderedDict[bytes, ChunkRow] = OrderedDict()  # longest unused first
        self._sizes: dict[bytes, int] = {}  # of each row, as it was counted
        self._num_bytes = 0
        self._changed: dict[bytes, ChunkRow] = {}
        self._lock = threading.Lock()
        self.num_tokenised = 0
        """Chunks whose tokens were not known."""

    def tokens(self, text: str, vocabulary: str, encode: Callable[[str], list[int]], kind: Kind) -> Tokens:
        """The tokens of a chunk: known, or made by `encode` and known from now on. Raises what that raises."""
        chunk_id = id_of(text)
        with self._lock:
            row = self._find(chunk_id) or ChunkRow(chunk_id, kind)
            known = row.tokens.get(vocabulary)
        made = tuple(encode(text)) if known is None else known
        with self._lock:
            row = self._rows.get(chunk_id, row)  # another thread may have put one there meanwhile
            row.num_uses += 1
            if vocabulary not in row.tokens:
                self.num_tokenised += 1
                row.tokens[vocabulary] = made
                self._keep(row)
            elif chunk_id in self._rows:
                self._rows.move_to_end(chunk_id)
            else:
                self._keep(row)
            self._note(row)
        return made

    def row(self, chunk_id: bytes) -> ChunkRow | None:
        """What is known of a chunk; None: nothing."""
        with self._lock:
            return self._find(chunk_id)

    def rows(self) -> Iterator[ChunkRow]:
        """Those in memory, the longest unused first."""
        with self._lock:
            kept = list(self._rows.values())
        return iter(kept)

    def close(self) -> None:
        """Keep what changed, and leave the file."""
        with self._lock:
            self._flush()
            if self._file is not None:
                self._file.close()

    def _find(self, chunk_id: bytes) -> ChunkRow | None:
        row = self._rows.get(chunk_id) or self._changed.get(chunk_id)
        if row is None and self._file is not None:
            row = self._file.read(chunk_id)
        return row

    def _keep(self, row: ChunkRow) -> None:
        self._rows.pop(row.id, None)
        self._num_bytes -= self._sizes.pop(row.id, 0)
        self._rows[row.id] = row
        self._sizes[row.id] = row.num_bytes
        self._num_bytes += row.num_bytes
        while self._num_bytes > self._max_bytes and len(self._rows) > 1:
            gone, _ = self._rows.popitem(last=False)
            self._num_bytes -= self._sizes.pop(gone)

    def _note(self, row: ChunkRow) -> None:
        if self._file is not None:
            self._changed[row.id] = row
            if len(self._changed) >= _FLUSH_AFTER:
                self._flush()

    def _flush(self) -> None:
        if self._file is not None and self._changed:
            self._file.write(list(self._changed.values()))
        self._changed.clear()


def id_of(text: str) -> bytes:
    """The same for the same text, whatever file it stands in."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
