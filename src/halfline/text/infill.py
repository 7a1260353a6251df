"""Which infill (fill-in-the-middle) format a vocabulary knows, and its prompt.

Zero configuration: a format is there when all its markers are single special tokens. Texts are encoded
before they come here, so none of them can smuggle in a marker.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from halfline.text.markers import INFILL_MARKERS, STOP_TEXTS, Order
from halfline.text.tokenizer import Tokenizer

InfillOrder = Literal["psm", "spm", "suffix_first", "anchored", "prefix_only"]
"""How a prompt may be put together. Beside those that models are trained on (InfillMarkers):

anchored     <prefix> before, up to where typing began <suffix> after <middle> what was typed since
prefix_only  before
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InfillFormat:
    """Marker ids of one format. `orders` (see InfillMarkers) are those the model was trained on, best first.

    `middle_id` None: there is none.
    """

    name: str
    prefix_id: int
    suffix_id: int
    middle_id: int | None
    orders: tuple[Order, ...]


def find_infill_format(tokenizer: Tokenizer) -> InfillFormat | None:
    """The first format of which the vocabulary has every marker; None: the model cannot infill."""
    for markers in INFILL_MARKERS:
        prefix_id = tokenizer.token_id(markers.prefix)
        suffix_id = tokenizer.token_id(markers.suffix)
        middle_id = tokenizer.token_id(markers.middle) if markers.middle is not None else None
        if prefix_id is None or suffix_id is None or (middle_id is None and markers.middle is not None):
            continue
        return InfillFormat(
            name=markers.name,
            prefix_id=prefix_id,
            suffix_id=suffix_id,
            middle_id=middle_id,
            orders=markers.orders,
        )
    return None


def extra_stop_ids(tokenizer: Tokenizer) -> frozenset[int]:
    """Tokens that end a file's text besides EOS: infill markers, file separators, ends of turn."""
    found = (tokenizer.token_id(text) for text in STOP_TEXTS)
    return frozenset(token_id for token_id in found if token_id is not None)


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands before the text before the cursor, within it where typing began, and behind it.

    before  PREFIX…  between  …PREFIX  behind
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    behind: tuple[int, ...]


NO_FRAME = Frame((), (), ())
"""Of a model without an infill format."""


def usable_orders(format: InfillFormat) -> tuple[InfillOrder, ...]:
    """All orders that can be tried with this format, trained ones first."""
    if "psm" in format.orders and format.middle_id is not None:
        return (*format.orders, "anchored", "prefix_only")
    return (*format.orders, "prefix_only")


def frame(format: InfillFormat, suffix_ids: Sequence[int], order: InfillOrder) -> Frame:
    """The prompt's parts around the text before the cursor, without BOS; behind all of it the model writes the middle.

    Raises ValueError for an order that `usable_orders` does not name.
    """
    if order not in usable_orders(format):
        raise ValueError(f"{format.name} infills as {', '.join(usable_orders(format))}, not as {order}")
    middle = () if format.middle_id is None else (format.middle_id,)
    match order:
        case "psm":
            return Frame((format.prefix_id,), (), (format.suffix_id, *suffix_ids, *middle))
        case "spm":
            return Frame((format.prefix_id, format.suffix_id, *suffix_ids, *middle), (), ())
        case "suffix_first":
            return Frame((format.suffix_id, *suffix_ids, format.prefix_id), (), middle)
        case "anchored":
            return Frame((format.prefix_id,), (format.suffix_id, *suffix_ids, *middle), ())
        case "prefix_only":
            return Frame((), (), ())
