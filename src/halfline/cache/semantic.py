"""Guesses what comes at a cursor from what came behind text that means about the same. Needs the extra `semantic`.

The nearest of all texts by the cosine of their vectors, searched through whole (FAISS IndexFlatIP): ten thousand take
about a millisecond. Near is not the same, so this tier, more than any other, is often wrong; it only ever proposes.
"""

import json
import logging
import os
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfline.cache.embedding import TextEmbedder
from halfline.cache.guessing import Cursor
from halfline.cache.seal import sealed, unsealed
from halfline.engine.speculation.draft import ProposalSource
from halfline.errors import MissingExtra
from halfline.telemetry.log import fields

MAX_TEXTS = 1 << 13
"""Of each tenant; then the older half is forgotten."""

MAX_ALL_TEXTS = 1 << 16
"""Of all tenants: those of whom was not heard for longest are forgotten first."""

_MAX_TENANTS = 64
_MAX_CHARACTERS = 1 << 12  # of what came: a longer guess costs memory and is hardly ever right to its end
_MAX_FILE_BYTES = 1 << 31  # more than all of that: what is larger is not ours
_CHARACTERS_BEFORE = 256  # the cursor: a few lines
_KEY = b"semantic 2"

_log = logging.getLogger(__name__)


class SemanticTier:
    """Lives on the event loop, but for `save`. `file` None: nothing outlives the process.

    Raises MissingExtra. A file that is not whole, of another version or another embedder's is passed over.
    """

    source: ProposalSource = "semantic"

    def __init__(self, embedder: TextEmbedder, min_similarity: float, file: Path | None = None) -> None:
        try:
            import faiss  # optional dependency
        except ImportError as error:
            raise MissingExtra("guessing from text that means about the same", "semantic") from error
        faiss.omp_set_num_threads(1)  # the cores belong to the model
        self._faiss = faiss
        self._embedder = embedder
        self._min_similarity = min_similarity
        self._file = file
        self._shelves: OrderedDict[str, _Shelf] = OrderedDict()  # by tenant, the one used last at the end
        embedder.embed("def")  # what it has to load is loaded now
        if file is not None:
            self._load(file)

    def look(self, cursor: Cursor) -> "SemanticLook | None":
        vector = self._embedder.embed(cursor.before[-_CHARACTERS_BEFORE:])
        return SemanticLook(self, cursor.tenant, vector[None]) if vector.any() else None

    def nearest(self, tenant: str, vector: NDArray[np.float32]) -> str | None:
        """What came behind the nearest text, if that is near enough. `vector`: float32 [1, dimensions]."""
        shelf = self._shelves.get(tenant)
        if shelf is None or not shelf.texts:
            return None
        similarities, places = shelf.index.search(vector, 1)
        return shelf.texts[places[0, 0]] if similarities[0, 0] >= self._min_similarity else None

    def add(self, tenant: str, vector: NDArray[np.float32], text: str) -> None:
        shelf = self._shelves.pop(tenant, None) or _Shelf(self._new_index())
        self._shelves[tenant] = shelf
        shelf.index.add(vector)
        shelf.texts.append(text[:_MAX_CHARACTERS])
        if len(shelf.texts) > MAX_TEXTS:
            num_kept = MAX_TEXTS // 2
            index = self._new_index()
            index.add(shelf.index.reconstruct_n(len(shelf.texts) - num_kept, num_kept))
            self._shelves[tenant] = _Shelf(index, shelf.texts[-num_kept:])
        while (
            len(self._shelves) > _MAX_TENANTS
            or sum(len(each.texts) for each in self._shelves.values()) > MAX_ALL_TEXTS
        ):
            self._shelves.popitem(last=False)

    def num_texts(self, tenant: str) -> int:
        """That are kept of it."""
        shelf = self._shelves.get(tenant)
        return 0 if shelf is None else len(shelf.texts)

    def save(self) -> None:
        """Replace the file as a whole, if there is to be one. A disk that does not do is logged."""
        if self._file is None:
            return
        indexes = [self._faiss.serialize_index(shelf.index).tobytes() for shelf in self._shelves.values()]
        head = {
            "embedder": self._embedder.name,
            "dimensions": self._embedder.num_dimensions,
            "shelves": [
                {"tenant": tenant, "texts": shelf.texts, "bytes": len(index)}
                for (tenant, shelf), index in zip(self._shelves.items(), indexes, strict=True)
            ],
        }
        packed = json.dumps(head).encode()
        data = len(packed).to_bytes(8, "little") + packed + b"".join(indexes)
        partial = self._file.with_suffix(".partial")
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(sealed(_KEY, data))
            partial.rename(self._file)
        except OSError as error:
            _log.warning("guesses are not saved", extra=fields(path=str(self._file), reason=str(error)))
            with suppress(OSError):  # a full disk has no room for half a file either
                partial.unlink()

    def _load(self, file: Path) -> None:
        try:
            status = file.stat()
            if not S_ISREG(status.st_mode) or status.st_size > _MAX_FILE_BYTES:
                raise OSError("no file of guesses is like that")
            data = unsealed(_KEY, file.read_bytes())
        except FileNotFoundError:
            return
        except OSError as error:
            _log.warning("guesses are not loaded", extra=fields(path=str(file), reason=str(error)))
            return
        if data is None:
            _log.warning(
                "a file that is damaged or of another version is passed over", extra=fields(path=str(file))
            )
            return
        # The seal says that it was written here, so what it holds is as it was written.
        start = 8 + int.from_bytes(data[:8], "little")
        head = json.loads(data[8:start])
        if (head["embedder"], head["dimensions"]) != (self._embedder.name, self._embedder.num_dimensions):
            return
        for each in head["shelves"]:
            stop = start + each["bytes"]
            index = self._faiss.deserialize_index(np.frombuffer(data[start:stop], np.uint8))
            self._shelves[each["tenant"]] = _Shelf(index, each["texts"])
            start = stop

    def _new_index(self) -> Any:
        return self._faiss.IndexFlatIP(self._embedder.num_dimensions)


@dataclass(slots=True)
class _Shelf:
    """`texts[i]` came behind the text of the index's vector i."""

    index: Any
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SemanticLook:
    tier: SemanticTier
    tenant: str
    vector: NDArray[np.float32]

    def guess(self) -> str | None:
        return self.tier.nearest(self.tenant, self.vector)

    def learn(self, text: str) -> None:
        if self.guess() != text[:_MAX_CHARACTERS]:  # what it knows already takes no place
            self.tier.add(self.tenant, self.vector, text)
