"""From a document and its cursor to token ids: window, healing point, suffix, and the order they stand in.

    prefix-only       window
    psm               PRE window SUF suffix MID
    spm               PRE SUF suffix MID window
    suffix_first      SUF suffix PRE window (MID)
    anchored          PRE window up to where the typing began SUF suffix MID what was typed since

In all of these but psm what is typed is appended: a keystroke's prompt begins like the one before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from halfline.context.documents import DocumentKey, Documents, Middle, OpenDocument
from halfline.context.layout import Layout, LayoutSizes
from halfline.context.line_grid import LineGrid
from halfline.context.sticky_suffix import StickySuffix, encode_suffix
from halfline.document.encoded_text import EncodedText, TextEncoder, check_encodable
from halfline.document.healing_point import HealingPoint, healing_point
from halfline.request import Document
from halfline.text.infill import NO_FRAME, InfillFormat, InfillOrder, frame
from halfline.text.tokenizer import Tokenizer

_MAX_TYPED_TOKENS = (
    256  # in the anchored order, behind the middle marker; then the typing is said to begin anew
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Tokens that a prompt may have, in all, and of the suffix."""

    num_tokens: int
    num_suffix_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPrompt:
    """`token_ids` without BOS. `window` is the text before the cursor that the model sees or has to say, from character
    `start` of the document on: the tokens at `places` (two ranges in the anchored order), then `forced_text`.
    """

    token_ids: tuple[int, ...]
    places: range
    window: str
    start: int
    forced_text: str
    forced_ids: tuple[int, ...]
    ledger: Mapping[str, object]


class DocumentPrompts:
    """For one tokenizer and one order. `infill` None: the model has no infill format, what is behind is not shown."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        sizes: LayoutSizes,
        infill: InfillFormat | None,
        order: InfillOrder,
    ) -> None:
        self._tokenizer = tokenizer
        self._sizes = sizes
        self._infill = infill
        self._order = order
        self._shows_suffix = self.continues = infill is not None and order != "prefix_only"
        """Whether the window's text is encoded as one that continues other text: markers stand before it."""
        self._encoder = TextEncoder(tokenizer, continues=self.continues)
        self._typed_encoder = TextEncoder(tokenizer, continues=True)
        self._grid = LineGrid(tokenizer)
        self._documents = Documents(
            lambda: OpenDocument(Layout(self._encoder, sizes), StickySuffix(tokenizer))
        )

    def build(
        self,
        document: Document,
        key: DocumentKey | None,
        room: Room,
        *,
        share: float,
        heals: bool,
        keeps: bool,
    ) -> DocumentPrompt:
        """`key` None: nobody says whose document this is, so the prompt depends on nothing but it; then the window has
        that `share` of its usual length. Where there are anchors a shorter window would only cost more.

        `heals` False: the prompt's text is one range of its tokens and ends at the cursor. `keeps` False: for a guess
        at the document's future. Raises UnencodableText.
        """
        if key is None or room.num_tokens < self._sizes.max_tokens + room.num_suffix_tokens:
            return self._alone(document, room, share, heals=heals)
        known = self._documents.find(key, keeps=keeps)
        placement = known.layout.place(document.prefix)
        suffix_ids: tuple[int, ...] = ()
        kept = False
        if self._shows_suffix:
            anew = placement.reason not in ("kept", "returned")
            suffix_ids, kept = known.suffix.read(document.suffix, room.num_suffix_tokens, renew=anew)
        if self._order == "anchored" and heals:
            known.middle = self._middle(known.middle, placement.encoded)
        return self._put_together(
            placement.encoded,
            known.middle if heals else None,
            suffix_ids,
            placement.start,
            heals=heals,
            ledger={
                "anchor": placement.reason,
                "expected_tokens": placement.num_expected,
                "suffix_kept": kept,
            },
        )

    def _alone(self, document: Document, room: Room, share: float, *, heals: bool) -> DocumentPrompt:
        max_tokens = min(int(self._sizes.max_tokens * share), room.num_tokens)
        start = self._grid.start(document.prefix, max_tokens)
        encoded = self._encoder.encode(document.prefix[start:])
        while len(encoded) > room.num_tokens:  # counted in cells, a window may come out a little longer
            start += 1 + len(encoded.text) // 16
            encoded = self._encoder.encode(document.prefix[start:])
        suffix_ids: tuple[int, ...] = ()
        if self._shows_suffix:
            max_suffix = max(0, min(room.num_suffix_tokens, room.num_tokens - len(encoded)))
            check_encodable(document.suffix[:max_suffix], len(document.prefix))
            suffix_ids = encode_suffix(self._tokenizer, document.suffix, max_suffix)
        middle = self._middle(None, encoded) if self._order == "anchored" and heals else None
        ledger = {"anchor": "grid", "window": share, "expected_tokens": len(encoded), "suffix_kept": False}
        return self._put_together(encoded, middle, suffix_ids, start, heals=heals, ledger=ledger)

    def _middle(self, last: Middle | None, encoded: EncodedText) -> Middle:
        """What was typed goes on, or begins anew at the cursor's line."""
        text = encoded.text
        if last is not None and text.startswith(last.before.text):
            typed = self._typed_encoder.change(last.typed, text[len(last.before.text) :])
            if len(typed) <= _MAX_TYPED_TOKENS:
                return Middle(last.before, typed)
        begin = text.rfind("\n") + 1
        before = self._encoder.change(encoded, text[:begin])
        return Middle(before, self._typed_encoder.encode(text[begin:]))

    def _put_together(
        self,
        encoded: EncodedText,
        middle: Middle | None,
        suffix_ids: tuple[int, ...],
        start: int,
        *,
        heals: bool,
        ledger: Mapping[str, object],
    ) -> DocumentPrompt:
        parts = NO_FRAME if self._infill is None else frame(self._infill, suffix_ids, self._order)
        head_ids = (*parts.before, *(() if middle is None else middle.before.token_ids), *parts.between)
        last = encoded if middle is None else middle.typed
        if middle is None and parts.between:  # nothing was typed: the middle is still empty
            parts = replace(parts, behind=(*parts.between, *parts.behind))
            head_ids = parts.before
        point = HealingPoint(len(last), len(last.text))
        if heals:
            encoder = self._encoder if middle is None else self._typed_encoder
            healed = healing_point(self._tokenizer, encoder, last)
            if healed is not None and (
                healed.num_tokens or head_ids
            ):  # something has to be left of the prompt
                point = healed
        token_ids = (*head_ids, *last.token_ids[: point.num_tokens], *parts.behind)
        return DocumentPrompt(
            token_ids=token_ids,
            places=range(len(head_ids), len(head_ids) + point.num_tokens),
            window=encoded.text,
            start=start,
            forced_text=last.text[point.place :],
            forced_ids=tuple(last.token_ids[point.num_tokens :]),
            ledger={
                **ledger,
                "order": self._order,
                "prefix_tokens": len(encoded),
                "prefix_characters": len(encoded.text),
                "prefix_characters_left_out": start,
                "suffix_tokens": len(suffix_ids),
                "forced_characters": len(last.text) - point.place,
            },
        )
