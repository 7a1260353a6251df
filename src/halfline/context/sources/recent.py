"""Files that a user had open lately, as their requests showed them: where they were edited, and what is alike in them.

Nothing is read from disk: of each document the latest text is remembered, as much as is near its cursor. Users see only
their own. Pieces of a text that did not change are not looked at again.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from halfline.context.compression.words import names
from halfline.context.documents import DocumentKey
from halfline.context.sources.definitions import lines_of
from halfline.context.sources.found import Found, similarity
from halfline.context.sources.near import names_near_cursor
from halfline.document.encoded_text import common_length
from halfline.request import Document, Part

_MAX_USERS = 32
_SIDE_CHARACTERS = 1 << 15  # before the cursor, and behind it
_PIECE_LINES = 20
_EDIT_LINES = 8  # before an edit, and behind it
_NUM_ALIKE = 6
_NUM_EDITS = 4


@dataclass
class _Seen:
    """A document's text as it was last, and the line that was edited last; None: it was only looked at."""

    path: str
    text: str
    edited: int | None
    num_requests: int

    @cached_property
    def pieces(self) -> list[tuple[str, frozenset[str]]]:
        lines = lines_of(self.text)
        texts = ("".join(lines[first : first + _PIECE_LINES]) for first in range(0, len(lines), _PIECE_LINES))
        return [(text, frozenset(names(text))) for text in texts]


@dataclass(slots=True)
class _User:
    num_requests: int = 0
    files: "OrderedDict[str, _Seen]" = field(default_factory=OrderedDict)  # the latest last


class RecentFiles:
    """Up to `max_files` of each user. Any thread may ask."""

    def __init__(self, max_files: int) -> None:
        self._max_files = max_files
        self._users: OrderedDict[tuple[str, str], _User] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, document: Document, key: DocumentKey) -> None:
        """This is what the document looks like now. One without a user's name might be anybody's: it is not kept."""
        if not key.user:
            return
        prefix, suffix = document.prefix[-_SIDE_CHARACTERS:], document.suffix[:_SIDE_CHARACTERS]
        text = prefix + suffix
        with self._lock:
            user = self._users.setdefault((key.tenant, key.user), _User())
            self._users.move_to_end((key.tenant, key.user))
            user.num_requests += 1
            before = user.files.get(key.path)
            if before is None or before.text != text:
                edited = None if before is None else _edited_line(before.text, text)
                user.files[key.path] = _Seen(key.path, text, edited, user.num_requests)
            user.files.move_to_end(key.path)
            while len(user.files) > self._max_files:
                user.files.popitem(last=False)
            while len(self._users) > _MAX_USERS:
                self._users.popitem(last=False)

    def others(self, key: DocumentKey | None) -> list[_Seen]:
        """The same user's other documents, the latest first."""
        if key is None:
            return []
        with self._lock:
            user = self._users.get((key.tenant, key.user))
            files = [] if user is None else [seen for path, seen in user.files.items() if path != key.path]
        return files[::-1]


class RecentEdits:
    """The lines around the last edit of each other file, the latest edit first."""

    def __init__(self, files: RecentFiles) -> None:
        self._files = files

    def find(self, document: Document, key: DocumentKey | None) -> list[Found]:
        return list(self._edits(key))

    def _edits(self, key: DocumentKey | None) -> Iterator[Found]:
        edited = [seen for seen in self._files.others(key) if seen.edited is not None]
        for rank, seen in enumerate(sorted(edited, key=lambda seen: -seen.num_requests)[:_NUM_EDITS]):
            assert seen.edited is not None, "chosen by that"
            lines = lines_of(seen.text)
            piece = lines[max(0, seen.edited - _EDIT_LINES) : seen.edited + _EDIT_LINES + 1]
            yield Found(Part("".join(piece), seen.path), "edited lately", 1.0 / (rank + 1))


class RecentlyAlike:
    """Pieces of other open files that have most in common with the text around the cursor."""

    def __init__(self, files: RecentFiles) -> None:
        self._files = files

    def find(self, document: Document, key: DocumentKey | None) -> list[Found]:
        wanted = frozenset(names_near_cursor(document))
        found = []
        for seen in self._files.others(key):
            for text, used in seen.pieces:
                share = similarity(wanted, used)
                if share is not None:
                    reason = f"open lately, {share:.0%} of its names are also around the cursor"
                    found.append(Found(Part(text, seen.path), reason, share))
        return sorted(found, key=lambda each: (-each.score, each.part.path or ""))[:_NUM_ALIKE]


def _edited_line(before: str, now: str) -> int:
    """The line of the text as it is now at which the two first differ."""
    return now.count("\n", 0, common_length(before, now))
