"""A guess at a sequence's next tokens, and how well guesses did. Knows no sequences."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from halfline.engine.speculation.repeats import Repeats

ProposalSource = Literal["syntax", "semantic"]
DraftSource = Literal["own", "given", "recent", "forced", ProposalSource]
"""The sequence's own tokens · texts its caller handed over · what its tenant was lately answered · the usual tokens of
a text that has to come first · whole answers that were guessed from similar code, or from similar text."""


@dataclass(frozen=True, slots=True)
class Draft:
    """At least one token, run as further rows of its sequence's chunk. They are a question, never an answer."""

    token_ids: tuple[int, ...]
    source: DraftSource


@dataclass(frozen=True, slots=True)
class Proposal:
    """A guess at all that a sequence will say, behind the last tokens of its prompt. Nobody may append to it."""

    source: ProposalSource
    tokens: Repeats


class DraftCounts:
    """Draft tokens that were run, and those of them that the model agreed with, by source."""

    def __init__(self) -> None:
        self._num_drafted: dict[str, int] = {}
        self._num_accepted: dict[str, int] = {}

    def count(self, draft: Draft, num_accepted: int) -> None:
        source = draft.source
        self._num_drafted[source] = self._num_drafted.get(source, 0) + len(draft.token_ids)
        self._num_accepted[source] = self._num_accepted.get(source, 0) + num_accepted

    def drafted(self) -> Mapping[str, int]:
        """A copy; sources that were never used are missing."""
        return dict(self._num_drafted)

    def accepted(self) -> Mapping[str, int]:
        """A copy, with the same keys as `drafted`."""
        return dict(self._num_accepted)
