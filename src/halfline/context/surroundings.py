"""The text of other files that goes with a document: what the client sent, what an index adds, shortened.

Both hold while one types. What was found is chosen once, and again when the cursor has gone far from where it was
chosen; what was left out of a part stays left out until then (compression/held.py), and who comes back finds it as it
was. So a keystroke's prompt goes on beginning like one before. For a document that nobody names nothing is remembered.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from halfline.context.compression.choice import build_chain
from halfline.context.compression.held import HeldDecisions
from halfline.context.compression.passes import Budget, Chain, LineTokens, Pass, lined
from halfline.context.compression.wanted import Wanted
from halfline.context.documents import DocumentKey
from halfline.context.options import ContextOptions
from halfline.context.sources.found import Found, Source
from halfline.context.sources.recent import RecentFiles
from halfline.request import Document, Part
from halfline.text.tokenizer import Tokenizer

_MAX_DOCUMENTS = 128
_MAX_PLACES = 4  # of each, the latest
_FAR_LINES = 150
"""From the cursor's line at which parts were chosen: about what a window shows."""

_MOST_CHARACTERS = 1 << 17
"""Of parts that passes read: some hundred times what a prompt has room for."""


@dataclass(slots=True)
class _Remembered:
    """`found` was chosen with the cursor in line `line`; `sent` are the texts of the client's parts, as they were last,
    `given` and `left` all parts before and after they were shortened. Who changes it has the lock.
    """

    found: tuple[Found, ...]
    line: int
    held: HeldDecisions = field(default_factory=HeldDecisions)
    sent: frozenset[str] = frozenset()
    given: tuple[Part, ...] = ()
    left: tuple[tuple[Part, ...], Mapping[str, object]] = ((), {})
    lock: Lock = field(default_factory=Lock)


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
        """Whether `prepare` has nothing to search, and no part that it was not given before."""
        if self._has_nothing_for(document):
            return True
        known = self._remembered(document, key)
        return known is not None and known.sent.issuperset(part.text for part in document.parts)

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
            known = _Remembered(found, document.prefix.count("\n"))
        elif not keeps:
            known = replace(known, held=known.held.fork())
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
            self._known[key] = (known, *others[: _MAX_PLACES - 1])
            self._known.move_to_end(key)
            if len(self._known) > _MAX_DOCUMENTS:
                self._known.popitem(last=False)

    def _around(
        self, known: _Remembered, document: Document, room: int
    ) -> tuple[Document, Mapping[str, object]]:
        known.sent = frozenset(part.text for part in document.parts)
        chosen = [each for each in known.found if each.part.text not in known.sent]
        # What the client finds worth reading stands nearer to the document.
        parts = (*(each.part for each in chosen), *document.parts)
        ledger: dict[str, object] = {}
        if chosen:
            ledger["found"] = [{"path": each.part.path, "reason": each.reason} for each in chosen]
        if self._chain is not None and parts:
            if parts != known.given:
                known.left = self._shortened(parts, document, room, known.held)
                known.given = parts
            parts, shortened = known.left
            if shortened["lines_dropped"]:
                ledger["compression"] = shortened
        return replace(document, parts=parts), ledger

    def _remembered(self, document: Document, key: DocumentKey | None) -> _Remembered | None:
        places = () if key is None else self._known.get(key, ())
        line = document.prefix.count("\n") if places else 0
        return next((each for each in places if abs(line - each.line) <= _FAR_LINES), None)

    def _shortened(
        self, parts: Sequence[Part], document: Document, room: int, held: HeldDecisions
    ) -> tuple[tuple[Part, ...], Mapping[str, object]]:
        assert self._chain is not None, "asked for by whoever calls"
        given = [lined(part) for part in _last(parts, _MOST_CHARACTERS)]
        num_given = self._tokens.count(given)
        num_tokens = min(room, int(self._keep * num_given))
        budget = Budget(num_tokens, document.prefix, document.suffix, document.path, room)
        shrunk = held.shrink(self._chain, given, budget)
        if self._wanted is not None and self._wanted.cost(shrunk.parts) > room:
            # What was decided at different times has no room together.
            held.renew()
            shrunk = held.shrink(self._chain, given, budget)
        left = tuple(Part(part.text, part.path) for part in shrunk.parts if part.lines)
        return left, {
            "tokens": num_given,
            "tokens_left": self._tokens.count(shrunk.parts),
            "lines_dropped": shrunk.reasons(),
        }


def _last(parts: Sequence[Part], num_characters: int) -> list[Part]:
    """Of parts longer than that together the last ones, and whole lines of the one before these."""
    chosen: list[Part] = []
    for part in reversed(parts):
        if len(part.text) > num_characters:
            end = part.text.rfind("\n", 0, num_characters) + 1
            return [replace(part, text=part.text[:end]), *chosen] if end else chosen
        num_characters -= len(part.text)
        chosen.insert(0, part)
    return chosen
