"""Pieces of other files in front of a document, as models were trained to read a repository (text/file_markers.py).

    <repo_name> repository ⏎ <file_sep> a.py ⏎ … <file_sep> b.py ⏎ … <file_sep> path ⏎    and then the document

They come first because they change least: a keystroke's prompt goes on beginning like the last one's. For the same
reason a file that does not fit is cut where its own chunks say (chunks/chunking.py), whatever the cursor's place.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from halfline.context.chunks.chunk_tokens import ChunkTokens
from halfline.request import Document, Part
from halfline.text.file_markers import FileMarkers

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
    """For one tokenizer, whose tokens of pieces are remembered (chunks/registry.py). `markers` None: there are none."""

    def __init__(self, markers: FileMarkers | None, chunks: ChunkTokens) -> None:
        self._markers = markers
        self._chunks = chunks

    def before(self, document: Document, max_tokens: int) -> Front:
        """Parts in their order; of too many the last ones, and of the one before these its first chunks that fit, as
        long as they are whole lines. Raises UnencodableText.
        """
        parts, markers = document.parts, self._markers
        if not parts or markers is None:
            return Front((), 0, len(parts))
        begin = self._begin(markers)
        end = self._file(markers, document.path, "")
        room = max_tokens - len(begin) - len(end)
        chosen: list[Sequence[int]] = []
        is_cut = False
        for part in reversed(parts):
            token_ids = self._whole(markers, part, room)
            if token_ids is None:
                token_ids = self._beginning(markers, part, room)
                is_cut = token_ids is not None
            if token_ids is None:
                break
            room -= len(token_ids)
            chosen.append(token_ids)
            if is_cut:
                break
        if not chosen:
            return Front((), 0, len(parts))
        files = (token_id for token_ids in reversed(chosen) for token_id in token_ids)
        return Front((*begin, *files, *end), len(chosen), len(parts) - len(chosen), is_cut)

    def _whole(self, markers: FileMarkers, part: Part, room: int) -> tuple[int, ...] | None:
        """None where it does not fit with its marker."""
        if len(part.text) > room * _MAX_TOKEN_CHARACTERS:
            return None
        token_ids = self._file(markers, part.path, part.text)
        return token_ids if len(token_ids) <= room else None

    def _beginning(self, markers: FileMarkers, part: Part, room: int) -> tuple[int, ...] | None:
        """Of a part that does not fit whole; None where not even its first chunk does."""
        found = None
        text = ""
        for chunk in self._chunks.chunks(part.text[: max(0, room) * _MAX_TOKEN_CHARACTERS], part.path):
            text += chunk
            if not chunk.endswith("\n"):
                break
            token_ids = self._file(markers, part.path, text)
            if len(token_ids) > room:
                break
            found = token_ids
        return found

    def _begin(self, markers: FileMarkers) -> tuple[int, ...]:
        if markers.repository_id is None:
            return ()
        return (markers.repository_id, *self._encode(f"{_REPOSITORY}\n"))

    def _file(self, markers: FileMarkers, path: str | None, text: str) -> tuple[int, ...]:
        if not markers.file_ids and text and not text.endswith("\n"):
            text += "\n"  # a path in a comment has a line of its own
        return (*markers.file_ids, *self._encode(f"{markers.before_path}{path or _UNNAMED}\n{text}"))

    def _encode(self, text: str) -> tuple[int, ...]:
        return self._chunks.of(text, "file")
