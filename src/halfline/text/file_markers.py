"""How the files of a repository are told apart in a prompt.

By the markers that a model was trained on, where its vocabulary has them. A model that was trained on plain text alone
sees paths in comments, as it has seen them in files; one that infills without such markers was trained on single files.

Texts are encoded before they come behind a marker, so none of them can smuggle one in.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from halfline.text.infill import InfillFormat
from halfline.text.markers import FILE_MARKERS, REPOSITORY_MARKERS
from halfline.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMarkers:
    """A file begins with `file_ids`, `before_path`, its path and a line break. `repository_id` None: nothing begins a
    repository.
    """

    repository_id: int | None
    file_ids: tuple[int, ...]
    before_path: str = ""


IN_COMMENTS = FileMarkers(repository_id=None, file_ids=(), before_path="# ")


def find_file_markers(tokenizer: Tokenizer, infill: InfillFormat | None) -> FileMarkers | None:
    """None: a model of that infill format has no use for other files."""
    file_id = _first_known(tokenizer, FILE_MARKERS)
    if file_id is not None:
        return FileMarkers(repository_id=_first_known(tokenizer, REPOSITORY_MARKERS), file_ids=(file_id,))
    return IN_COMMENTS if infill is None else None


def _first_known(tokenizer: Tokenizer, texts: Sequence[str]) -> int | None:
    found = (tokenizer.token_id(text) for text in texts)
    return next((token_id for token_id in found if token_id is not None), None)
