"""Which infill (fill-in-the-middle) format a vocabulary knows, and its prompt.

Zero configuration: a format is there when all its markers are single special tokens. Texts are encoded
before they come here, so none of them can smuggle in a marker.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from halfline.text.markers import (
    FILE_MARKERS,
    INFILL_MARKERS,
    REPOSITORY_MARKERS,
    STOP_TEXTS,
    Order,
)
from halfline.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class InfillFormat:
    """Marker ids of one format. `orders` (see InfillMarkers) are those the model was trained on, best first.

    `middle_id` None: there is none. `repository_id` and `file_id` begin a repository and a file of it;
    None: the model knows no such marker.
    """

    name: str
    prefix_id: int
    suffix_id: int
    middle_id: int | None
    orders: tuple[Order, ...]
    repository_id: int | None
    file_id: int | None


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
            repository_id=_first_known(tokenizer, REPOSITORY_MARKERS),
            file_id=_first_known(tokenizer, FILE_MARKERS),
        )
    return None


def extra_stop_ids(tokenizer: Tokenizer) -> frozenset[int]:
    """Tokens that end a file's text besides EOS: infill markers, file separators, ends of turn."""
    found = (tokenizer.token_id(text) for text in STOP_TEXTS)
    return frozenset(token_id for token_id in found if token_id is not None)


def render(
    format: InfillFormat, prefix_ids: Sequence[int], suffix_ids: Sequence[int], order: Order | None = None
) -> list[int]:
    """The prompt behind which the model writes the middle, without BOS; `order` None takes the best.

    Raises ValueError for an order the model was not trained on.
    """
    order = order or format.orders[0]
    if order not in format.orders:
        raise ValueError(f"{format.name} was trained on {', '.join(format.orders)}, not on {order}")
    middle = [] if format.middle_id is None else [format.middle_id]
    match order:
        case "psm":
            return [format.prefix_id, *prefix_ids, format.suffix_id, *suffix_ids, *middle]
        case "spm":
            return [format.prefix_id, format.suffix_id, *suffix_ids, *middle, *prefix_ids]
        case "suffix_first":
            return [format.suffix_id, *suffix_ids, format.prefix_id, *prefix_ids, *middle]


def _first_known(tokenizer: Tokenizer, texts: Sequence[str]) -> int | None:
    found = (tokenizer.token_id(text) for text in texts)
    return next((token_id for token_id in found if token_id is not None), None)
