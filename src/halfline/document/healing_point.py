"""Where the prompt ends and the text begins that the model has to say first.

A vocabulary cuts text into words before it merges characters into tokens, and no token reaches across. So a word that
the cursor ends is the only one whose tokens could have been others, had more been typed: it is left to the model.

    … return sel█        words  … | return| sel       the prompt ends behind "return", " sel" is forced
    … ⏎    █             words  … |⏎                 the line's end and its indentation are forced
"""

from bisect import bisect_right
from dataclasses import dataclass

from halfline.document.encoded_text import EncodedText, TextEncoder
from halfline.text.tokenizer import Tokenizer

MAX_FORCED_BYTES = 64
"""Of a longer word, such as a line of Chinese, only the last token is left to the model."""

_NEAR = 24  # characters: where words begin is looked for from the last known cut ahead of these
_FAR = 256  # from here if no cut is known: what is so far away moves no word


@dataclass(frozen=True, slots=True)
class HealingPoint:
    """The prompt is the first `num_tokens` tokens, which spell the text up to character `place`."""

    num_tokens: int
    place: int


def healing_point(tokenizer: Tokenizer, encoder: TextEncoder, encoded: EncodedText) -> HealingPoint | None:
    """None: nothing can be left to the model. Perhaps nothing is left of the text."""
    place = _last_word(tokenizer, encoded.text)
    forced = encoded.text[place:]
    if not forced:
        return None
    if len(forced.encode()) > MAX_FORCED_BYTES:
        position = len(encoded) - 1
    else:
        position = bisect_right(encoded.ends, encoded.ends[-1] - len(forced.encode()))
    start = encoder.start_of(encoded, position)
    if start is None or len(encoded.text[start:].encode()) > MAX_FORCED_BYTES:
        return None
    return HealingPoint(position, start)


def _last_word(tokenizer: Tokenizer, text: str) -> int:
    cut = tokenizer.last_cut(text, max(0, len(text) - _NEAR)) or max(0, len(text) - _FAR)
    return cut + tokenizer.last_word(text[cut:])
