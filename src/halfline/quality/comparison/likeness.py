"""How alike two texts of code are. Which of them is right is the caller's affair. Needs the extra `quality`."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from rapidfuzz.distance import Levenshtein

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

_WORDS = re.compile(r"\w+|[^\w\s]")


def is_same(one: str, other: str) -> bool:
    """The same but for blanks at the end."""
    return one.rstrip() == other.rstrip()


def edit_distance(one: str, other: str) -> int:
    """Levenshtein's: characters put in, taken out or exchanged, blanks at the end apart."""
    return int(Levenshtein.distance(one.rstrip(), other.rstrip()))


def edit_similarity(one: str, other: str) -> float:
    """1 - distance over the longer one's length; 1 for two empty texts."""
    return float(Levenshtein.normalized_similarity(one.rstrip(), other.rstrip()))


def bleu4(text: str, reference: str) -> float:
    """Sentence BLEU up to 4-grams, from 0 to 1, over words and single signs as sacrebleu counts them.

    Papineni et al. 2002 with sacrebleu's exponential smoothing; a short text is judged by the n-grams it has room for
    (`effective_order`). Two empty texts are the same: 1.
    """
    words, wanted = _WORDS.findall(text), _WORDS.findall(reference)
    if not words or not wanted:
        return float(words == wanted)
    return float(_bleu().sentence_score(" ".join(words), [" ".join(wanted)]).score) / 100


def name_f1(names: Sequence[str], wanted: Sequence[str]) -> float:
    """Harmonic mean of precision and recall, each name counted as often as it stands there; 1 when neither has any."""
    if not names and not wanted:
        return 1.0
    common = (Counter(names) & Counter(wanted)).total()
    return 2 * common / (len(names) + len(wanted))


@cache
def _bleu() -> "BLEU":
    from sacrebleu.metrics.bleu import BLEU  # start-up time: half a second

    return BLEU(tokenize="none", effective_order=True, force=True)
