"""Pieces of other files in front of a document, as models were trained to read a repository (text/file_markers.py).

    <repo_name> repository ⏎ <file_sep> a.py ⏎ … <file_sep> b.py ⏎ … <file_sep> path ⏎    and then the document

They come first because they change least: a keystroke's prompt goes on beginning like the last one's. For the same
reason a file that does not fit is cut behind its first lines that do, whatever the cursor's place; a pass chooses
better (compression/wanted.py), and then everything fits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from halfline.context.chunks.chunk_tokens import ChunkTokens
from halfline.context.sources.definitions import lines_of
from halfline.request import Document, Part
from halfline.text.file_markers import FileMarkers

_REPOSITORY = "repository"  # nobody tells its name
_UNNAMED = "untitled"

MAX_TOKEN_CHARACTERS = 16
"""A piece that is longer than room for it cannot fit, so it is not encoded to see whether it does."""


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
        """Parts in their order; of too many the last ones, and of the one before these its first lines that fit.
        Raises UnencodableText.
        """
        parts, markers = document.parts, self._markers
        if not parts or markers is None:
            return Front((), 0, len(parts))
        begin = self._begin(markers)
        end = self._file(markers, document.path, "")
        room = self.room(document, max_tokens)
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

    def room(self, document: Document, max_tokens: int) -> int:
        """Of so many tokens those that parts and their paths have. Raises UnencodableText."""
        if self._markers is None:
            return 0
        return (
            max_tokens - len(self._begin(self._markers)) - len(self._file(self._markers, document.path, ""))
        )

    def _whole(self, markers: FileMarkers, part: Part, room: int) -> tuple[int, ...] | None:
        """None where it does not fit with its marker."""
        if len(part.text) > room * MAX_TOKEN_CHARACTERS:
            return None
        token_ids = self._file(markers, part.path, part.text)
        return token_ids if len(token_ids) <= room else None

    def _beginning(self, markers: FileMarkers, part: Part, room: int) -> tuple[int, ...] | None:
        """Of a part that does not fit whole its first lines; None where not even one does."""
        lines = lines_of(part.text[: max(0, room) * MAX_TOKEN_CHARACTERS])
        left = room - len(self._file(markers, part.path, ""))
        num_lines = 0
        for line in lines:
            left -= self._chunks.count(line)
            if left < 0:
                break
            num_lines += 1
        while num_lines:  # together, lines seldom cost a token more
            token_ids = self._file(markers, part.path, "".join(lines[:num_lines]))
            if len(token_ids) <= room:
                return token_ids
            num_lines -= 1
        return None

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
