"""Pieces of other files in front of a document, as models with a file marker were trained to read a repository.

    <repo_name> repository ⏎ <file_sep> a.py ⏎ … <file_sep> b.py ⏎ … <file_sep> path ⏎    and then the document

They come first because they change least: a keystroke's prompt goes on beginning like the last one's. For the same
reason a file that does not fit is cut where its own chunks say (chunks/chunking.py), whatever the cursor's place. A
model without such a marker, or without an infill format, gets none of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from halfline.context.chunks.chunk_tokens import ChunkTokens
from halfline.request import Document, Part
from halfline.text.infill import InfillFormat

_REPOSITORY = "repository"  # nobody tells its name
_UNNAMED = "untitled"

_MAX_TOKEN_CHARACTERS = 16  # a longer piece cannot fit, so it is not encoded to see whether it does


@dataclass(frozen=True, slots=True)
class Front:
    """Token ids before the document's, and how many of its parts are in them, the first of which may be cut, and are
    not.
    """

    token_ids: tuple[int, ...]
    num_used: int
    num_left_out: int
    is_cut: bool = False


class OtherFiles:
    """For one tokenizer, whose tokens of pieces are remembered (chunks/registry.py)."""

    def __init__(self, infill: InfillFormat | None, chunks: ChunkTokens) -> None:
        self._infill = infill
        self._chunks = chunks

    def before(self, document: Document, max_tokens: int) -> Front:
        """Parts in their order; of too many the last ones, and of the one before these its first chunks that fit, as
        long as they are whole lines. Raises UnencodableText.
        """
        parts = document.parts
        if not parts or self._infill is None or self._infill.file_id is None:
            return Front((), 0, len(parts))
        begin = self._begin(self._infill)
        end = (self._infill.file_id, *self._encode(f"{document.path or _UNNAMED}\n"))
        room = max_tokens - len(begin) - len(end)
        chosen: list[Sequence[int]] = []
        is_cut = False
        for part in reversed(parts):
            token_ids = self._whole(part, room)
            if token_ids is None:
                token_ids = self._beginning(part, room)
                is_cut = token_ids is not None
            if token_ids is None:
                break
            room -= 1 + len(token_ids)
            chosen.append((self._infill.file_id, *token_ids))
            if is_cut:
                break
        if not chosen:
            return Front((), 0, len(parts))
        files = (token_id for token_ids in reversed(chosen) for token_id in token_ids)
        return Front((*begin, *files, *end), len(chosen), len(parts) - len(chosen), is_cut)

    def _whole(self, part: Part, room: int) -> tuple[int, ...] | None:
        """None where it does not fit behind its marker."""
        if len(part.text) > room * _MAX_TOKEN_CHARACTERS:
            return None
        token_ids = self._encode(_file(part.path, part.text))
        return token_ids if len(token_ids) < room else None

    def _beginning(self, part: Part, room: int) -> tuple[int, ...] | None:
        """Of a part that does not fit whole; None where not even its first chunk does."""
        found = None
        text = ""
        for chunk in self._chunks.chunks(part.text[: max(0, room) * _MAX_TOKEN_CHARACTERS], part.path):
            text += chunk
            if not chunk.endswith("\n"):
                break
            token_ids = self._encode(_file(part.path, text))
            if len(token_ids) >= room:
                break
            found = token_ids
        return found

    def _begin(self, infill: InfillFormat) -> tuple[int, ...]:
        if infill.repository_id is None:
            return ()
        return (infill.repository_id, *self._encode(f"{_REPOSITORY}\n"))

    def _encode(self, text: str) -> tuple[int, ...]:
        return self._chunks.of(text, "file")


def _file(path: str | None, text: str) -> str:
    return f"{path or _UNNAMED}\n{text}"
