"""The names that settings use for passes. Imports nothing: settings are read before anything else is."""

from typing import Literal, get_args

PassName = Literal[
    "comments",
    "duplicates",
    "bodies",
    "entropy",
    "entropy_article",
    "prune",
    "prune_certain",
    "prune_words",
    "prune_words_article",
    "related",
    "in_common",
    "tail",
    "uniform",
    "random",
]

Chosen = Literal["wanted", "first"]
"""Of text that does not fit: what the pass of that name chooses (wanted.py), or what comes first."""

PASS_NAMES: tuple[PassName, ...] = get_args(PassName)
