"""From a document and its cursor to token ids: window, healing point, suffix, and the order they stand in.

    prefix-only       window
    psm               PRE window SUF suffix MID
    spm               PRE SUF suffix MID window
    suffix_first      SUF suffix PRE window (MID)
    anchored          PRE window up to where the typing began SUF suffix MID what was typed since

In all of these but psm what is typed is appended: a keystroke's prompt begins like the one before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from halfline.context.documents import DocumentKey, Documents, Middle, OpenDocument
from halfline.context.layout import Layout, LayoutSizes
from halfline.context.line_grid import LineGrid
from halfline.context.sticky_suffix import StickySuffix
from halfline.document.encoded_text import EncodedText, TextEncoder
from halfline.document.healing_point import HealingPoint, healing_point
from halfline.errors import UnencodableText
from halfline.request import Document
from halfline.text.infill import NO_FRAME, InfillFormat, InfillOrder, frame
from halfline.text.tokenizer import Tokenizer

_MAX_TYPED_TOKENS = 256
"""In the anchored order, behind the middle marker; then the typing is said to begin anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Tokens that a prompt may have, in all, and of the suffix. Of a document without anchors that `share` of the usual
    length is read; where there are some, less would only cost more.
    """

    num_tokens: int
    num_suffix_tokens: int
    share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPrompt:
    """`token_ids` without BOS. `window` is the text before the cursor that the model sees or has to say, from character
    `start` of the document on: the tokens at `places` (two ranges in the anchored order), then `forced_text`.
    `planned_ids` is how a prompt to come begins, as far as it is due; empty: none is planned.
    """

    token_ids: tuple[int, ...]
    places: range
    window: str
    start: int
    forced_text: str
    forced_ids: tuple[int, ...]
    ledger: Mapping[str, object]
    planned_ids: tuple[int, ...] = ()


class DocumentPrompts:
    """For one tokenizer and one order. `infill` None: the model has no infill format, what is behind is not shown."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        sizes: LayoutSizes,
        infill: InfillFormat | None,
        order: InfillOrder,
        *,
        behind_files: bool = False,
    ) -> None:
        """`behind_files`: other text stands before all of its prompts."""
        self._tokenizer = tokenizer
        self._sizes = sizes
        self._infill = infill
        self._order = order
        self._shows_suffix = infill is not None and order != "prefix_only"
        self.continues = self._shows_suffix or behind_files
        """Whether the window's text is encoded as one that continues other text: markers or files stand before it."""
        self._encoder = TextEncoder(tokenizer, continues=self.continues)
        self._typed_encoder = TextEncoder(tokenizer, continues=True)
        self._grid = LineGrid(tokenizer)
        self._documents = Documents(
            lambda: OpenDocument(Layout(self._encoder, sizes), StickySuffix(tokenizer))
        )

    def build(
        self, document: Document, key: DocumentKey | None, room: Room, *, heals: bool, keeps: bool
    ) -> DocumentPrompt:
        """`key` None: nobody says whose document this is, so the prompt depends on nothing but it.

        `heals` False: the prompt's text is one range of its tokens and ends at the cursor. `keeps` False: for a guess
        at the document's future. Raises UnencodableText.
        """
        if key is None:
            return self._alone(document, room, "grid", heals=heals)
        if room.num_tokens < self._sizes.max_tokens + room.num_suffix_tokens:
            return self._alone(document, room, "narrow", heals=heals)
        known = self._documents.find(key, keeps=keeps)
        placement = known.layout.place(document.prefix)
        anew = placement.reason not in ("kept", "returned", "grown")
        suffix_ids, kept = self._suffix(known.suffix, document, room.num_suffix_tokens, anew=anew)
        if self._order == "anchored" and heals:
            known.middle = self._middle(known.middle, placement.encoded)
        return self._put_together(
            placement.encoded,
            known.middle if heals else None,
            suffix_ids,
            placement.start,
            heals=heals,
            planned=() if placement.planned is None else placement.planned.token_ids[: placement.num_due],
            ledger={
                "anchor": placement.reason,
                "expected_tokens": placement.num_expected,
                "suffix_kept": kept,
            },
        )

    def _alone(self, document: Document, room: Room, reason: str, *, heals: bool) -> DocumentPrompt:
        """From a grid of lines, for the `reason` that nobody names the document or that it has no room to grow in."""
        max_tokens = min(int(self._sizes.max_tokens * room.share), room.num_tokens)
        start = self._grid.start(document.prefix, max_tokens)
        encoded = self._encoder.encode(document.prefix[start:])
        while len(encoded) > room.num_tokens:  # counted in cells, a window may come out a little longer
            start += 1 + len(encoded.text) // 16
            encoded = self._encoder.encode(document.prefix[start:])
        max_suffix = max(0, min(int(room.num_suffix_tokens * room.share), room.num_tokens - len(encoded)))
        suffix_ids, kept = self._suffix(StickySuffix(self._tokenizer), document, max_suffix, anew=True)
        middle = self._middle(None, encoded) if self._order == "anchored" and heals else None
        ledger = {
            "anchor": reason,
            "window": room.share,
            "expected_tokens": len(encoded),
            "suffix_kept": kept,
        }
        return self._put_together(encoded, middle, suffix_ids, start, heals=heals, ledger=ledger)

    def _suffix(
        self, sticky: StickySuffix, document: Document, max_tokens: int, *, anew: bool
    ) -> tuple[tuple[int, ...], bool]:
        """The suffix's tokens, none in an order without it, and whether they are those of before."""
        if not self._shows_suffix:
            return (), False
        try:
            return sticky.read(document.suffix, max_tokens, renew=anew)
        except UnencodableText as error:
            raise UnencodableText(len(document.prefix) + error.offset) from None

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
        planned: Sequence[int] = (),
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
            # Something has to be left of the prompt.
            if healed is not None and (healed.num_tokens or head_ids):
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
            planned_ids=(*parts.before, *planned) if planned else (),
        )
