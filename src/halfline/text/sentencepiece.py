"""SentencePiece BPE vocabularies as merges that a BPE engine can run.

SentencePiece has no list of merges: of all neighbours whose concatenation is a token it joins those of
the highest score first, the leftmost among equals. Every way to cut a token into two tokens is therefore
a merge, ordered by the score of the whole.
"""

import re
from collections.abc import Mapping

SPACE = "▁"
_SPACE_INSIDE = re.compile(f"[^{SPACE}]{SPACE}")


def merges_from_scores(scores: Mapping[str, float]) -> list[tuple[str, str]]:
    """All merges of a vocabulary {token text: score}, in the order they apply."""
    ordered = sorted(scores.items(), key=lambda item: -item[1])
    return [
        (token[:cut], token[cut:])
        for token, _ in ordered
        for cut in range(1, len(token))
        if token[:cut] in scores and token[cut:] in scores
    ]


def spaces_only_lead(tokens: Mapping[str, float]) -> bool:
    """Whether no token has a space behind another character: then words can be merged one by one."""
    return not any(_SPACE_INSIDE.search(token) for token in tokens)
