"""The text of other files that goes with a document: what the client sent, what an index adds, shortened.

Both hold while one types. What was found is chosen once, and again when the cursor has gone far from where it was
chosen; what was left out of a part stays left out until then (compression/held.py), and who comes back finds it as it
was. So a keystroke's prompt goes on beginning like one before. Where it cannot, because what stood first is gone, what
is shown is chosen anew. For a document that nobody names nothing is remembered.

A place is known by its lines too: some clients send a window whose first line moves with the cursor, and some do not
say which file it is of.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from halfline.context.compression.choice import build_chain
from halfline.context.compression.held import HeldDecisions
from halfline.context.compression.passes import Budget, Chain, LinedPart, LineTokens, Pass, Shrunk, lined
from halfline.context.compression.wanted import Wanted
from halfline.context.documents import DocumentKey
from halfline.context.options import ContextOptions
from halfline.context.other_files import MAX_TOKEN_CHARACTERS
from halfline.context.sources.found import Found, Source
from halfline.context.sources.recent import RecentFiles
from halfline.document.encoded_text import common_length
from halfline.request import Document, Part
from halfline.text.tokenizer import Tokenizer

_MAX_PLACES = 128  # of all documents, about half a megabyte each where much is sent
_MAX_PLACES_OF_ONE = 4  # document, the latest
_FAR_LINES = 150
"""From the cursor's line at which parts were chosen: about what a window shows."""

_TEXT_BEFORE, _TEXT_BEHIND = 1 << 16, 1 << 13  # characters, at least what passes look at

_NEAR_LINES = 24  # before the cursor; a third as many behind it
_TELLING = 8  # characters: shorter lines are everywhere
_FEW_LINES = 8  # as many may be written where there were none

_MOST_CHARACTERS = 1 << 17
"""Of parts that passes read: some hundred times what a prompt has room for."""

_PART_CHARACTERS = 64
"""As many does a part count besides its text, so that of ten thousand of one line two thousand are read."""


@dataclass(slots=True)
class _Remembered:
    """`found` was chosen with the cursor in line `line`, between the lines `near`; `sent` are the hashes of the
    client's parts and `given` those of all parts, as they were last, and `left` is what they were shortened to. Who
    changes it has the lock. `text` is the last of what stood before the cursor, and the first behind it.
    """

    found: tuple[Found, ...]
    line: int
    near: frozenset[str]
    text: tuple[str, str] = ("", "")
    held: HeldDecisions = field(default_factory=HeldDecisions)
    sent: frozenset[int] = frozenset()
    given: tuple[int, ...] = ()
    left: tuple[tuple[Part, ...], Mapping[str, object]] = ((), {})
    lock: Lock = field(default_factory=Lock)

    def fork(self) -> "_Remembered":
        """One that knows the same and learns apart."""
        with self.lock:
            return replace(self, held=self.held.fork(), lock=Lock())

    def is_of(self, line: int, around: frozenset[str]) -> bool:
        """Whether it was chosen for a cursor there, with the lines `around` it."""
        if abs(line - self.line) > _FAR_LINES:
            return False
        return 2 * len(self.near & around) >= len(self.near) if self.near else len(around) <= _FEW_LINES


class Surroundings:
    """`source` None: only what clients send. `recent` is told of every document, for a source that remembers."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        vocab_size: int,
        options: ContextOptions,
        source: Source | None = None,
        recent: RecentFiles | None = None,
    ) -> None:
        def encode(text: str) -> Sequence[int]:
            return tokenizer.encode(text, add_bos=False, continues=True)

        self._tokens = LineTokens(encode)
        passes: list[Pass] = []
        if options.compression:
            passes.append(build_chain(options.compression, self._tokens, vocab_size))
        self._wanted = Wanted(self._tokens) if options.chosen == "wanted" else None
        if self._wanted is not None:
            passes.append(self._wanted)
        self._chain = Chain(passes) if passes else None
        self._keep = options.keep
        self._source = source
        self._recent = recent
        self._known: OrderedDict[DocumentKey, tuple[_Remembered, ...]] = OrderedDict()
        self._lock = Lock()

    def remembers(self, document: Document, key: DocumentKey | None) -> bool:
        """Whether `prepare` has nothing to search, no part that it was not given before, and nobody to wait for."""
        if self._has_nothing_for(document):
            return True
        known = self._remembered(document, key)
        if known is None or known.lock.locked():
            return False
        return known.sent.issuperset(map(hash, document.parts))

    def prepare(
        self, document: Document, key: DocumentKey | None, room: int, *, keeps: bool
    ) -> tuple[Document, Mapping[str, object]]:
        """The document with its parts, at most `room` tokens of them and their paths where passes can choose, and a
        ledger.

        `keeps` False: for a guess at the document's future. In any thread; one at a time for a document.
        """
        if self._has_nothing_for(document):
            return document, {}
        known = self._remembered(document, key)
        if known is None:
            found = () if self._source is None else tuple(self._source.find(document, key))
            near = _lines_around(document, _NEAR_LINES)
            known = _Remembered(found, document.prefix.count("\n"), near)
        elif not keeps:
            known = known.fork()
        with known.lock:
            result = self._around(known, document, room)
        if key is not None and keeps:
            if self._recent is not None:
                self._recent.note(document, key)
            self._keep_known(key, known)
        return result

    def _has_nothing_for(self, document: Document) -> bool:
        return self._source is None and self._recent is None and not document.parts

    def _keep_known(self, key: DocumentKey, known: _Remembered) -> None:
        with self._lock:
            others = [each for each in self._known.get(key, ()) if each is not known]
            self._known[key] = (known, *others[: _MAX_PLACES_OF_ONE - 1])
            self._known.move_to_end(key)
            while sum(map(len, self._known.values())) > _MAX_PLACES:
                self._known.popitem(last=False)

    def _around(
        self, known: _Remembered, document: Document, room: int
    ) -> tuple[Document, Mapping[str, object]]:
        if not _is_empty(document):
            known.text = document.prefix[-_TEXT_BEFORE:], document.suffix[:_TEXT_BEHIND]
        sent = {part.text for part in document.parts}
        chosen = [each for each in known.found if each.part.text not in sent]
        # What the client finds worth reading stands nearer to the document.
        parts = (*(each.part for each in chosen), *document.parts)
        ledger: dict[str, object] = {}
        if chosen:
            ledger["found"] = [{"path": each.part.path, "reason": each.reason} for each in chosen]
        if self._chain is not None and parts and room > 0:
            given = tuple(map(hash, parts))
            if given != known.given:
                known.left = self._shortened(parts, document, room, known)
                known.given = given
            parts, shortened = known.left
            if shortened["lines_dropped"] or shortened["parts_dropped"]:
                ledger["compression"] = shortened
        known.sent = frozenset(map(hash, document.parts))
        return replace(document, parts=parts), ledger

    def _remembered(self, document: Document, key: DocumentKey | None) -> _Remembered | None:
        places = () if key is None else self._known.get(key, ())
        if not places:
            return None
        if document.parts and _is_empty(document):
            return places[0]  # a client has the text of other files read for what is asked next
        line, around = document.prefix.count("\n"), _lines_around(document, _FAR_LINES)
        return next((each for each in places if each.is_of(line, around)), None)

    def _shortened(
        self, parts: Sequence[Part], document: Document, room: int, known: _Remembered
    ) -> tuple[tuple[Part, ...], Mapping[str, object]]:
        assert self._chain is not None, "asked for by whoever calls"
        most = room * MAX_TOKEN_CHARACTERS
        given = [_with_room(lined(part), most) for part in _last(parts, _MOST_CHARACTERS)]
        num_given = self._tokens.count(given)
        num_tokens = min(room, int(self._keep * num_given))
        text = known.text if _is_empty(document) else (document.prefix, document.suffix)
        budget = Budget(num_tokens, *text, document.path, room)
        shrunk = known.held.shrink(self._chain, given, budget)
        if self._wanted is not None and (
            self._wanted.cost(shrunk.parts) > room or _is_read_anew(known.left[0], _shown(shrunk))
        ):
            # What was decided at different times has no room together, or holding on to it saves little.
            known.held.renew()
            shrunk = known.held.shrink(self._chain, given, budget)
        shown = _shown(shrunk)
        return shown, {
            "tokens": num_given,
            "tokens_left": self._tokens.count(shrunk.parts),
            "lines_dropped": shrunk.reasons(),
            "parts_dropped": len(parts) - len(shown),
        }


def _is_empty(document: Document) -> bool:
    return not document.prefix and not document.suffix


def _lines_around(document: Document, num_lines: int) -> frozenset[str]:
    """Of so many whole lines before the cursor's and a third as many behind it those that tell files apart."""
    before = document.prefix.rsplit("\n", num_lines + 1)[-num_lines - 1 : -1]
    behind = document.suffix.split("\n", num_lines // 3 + 1)[1 : num_lines // 3 + 1]
    return frozenset(line for each in (*before, *behind) if len(line := each.strip()) >= _TELLING)


def _shown(shrunk: Shrunk) -> tuple[Part, ...]:
    return tuple(Part(part.text, part.path) for part in shrunk.parts if part.lines)


def _is_read_anew(before: Sequence[Part], now: Sequence[Part]) -> bool:
    """Whether less than half of what was shown stays where it was: at the beginning."""
    num_same = 0
    for old, new in zip(before, now, strict=False):
        if old.path != new.path:
            break
        num_same += common_length(old.text, new.text)
        if old.text != new.text:
            break
    return 2 * num_same < sum(len(part.text) for part in before)


def _with_room(part: LinedPart, num_characters: int) -> LinedPart:
    """Without lines longer than that, and without any where its path is: nobody splits a minified file into tokens to
    see that it does not fit.
    """
    if len(part.path or "") > num_characters:
        return replace(part, lines=())
    return replace(part, lines=tuple(line for line in part.lines if len(line.text) <= num_characters))


def _last(parts: Sequence[Part], num_characters: int) -> list[Part]:
    """Of parts longer than that together the last ones, and whole lines of the one before these."""
    chosen: list[Part] = []
    for part in reversed(parts):
        num_characters -= _PART_CHARACTERS
        if num_characters <= 0:
            break
        if len(part.text) > num_characters:
            end = part.text.rfind("\n", 0, num_characters) + 1
            if end:
                chosen.append(replace(part, text=part.text[:end]))
            break
        num_characters -= len(part.text)
        chosen.append(part)
    return chosen[::-1]
