"""Names around a cursor: what pieces of other files are chosen by."""

from halfline.context.compression.words import names
from halfline.request import Document

_NEAR_LINES = 40
_REACH = 1 << 13  # characters that are looked at


def names_near_cursor(document: Document) -> list[str]:
    """Each once, the nearest before the cursor first, then those behind it."""
    before = document.prefix[-_REACH:].splitlines()[-_NEAR_LINES:]
    behind = document.suffix[:_REACH].splitlines()[: _NEAR_LINES // 4]
    return list(dict.fromkeys([*reversed(names("\n".join(before))), *names("\n".join(behind))]))
