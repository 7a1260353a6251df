"""Which guesses run as further rows of a step, and how well they did.

Drafts come last, in what is left of the step's rows and of the free blocks: they displace nobody. Their rows are only
ever a question: what is appended was sampled as if there were none, what is published was computed from it.
"""

from collections.abc import Mapping
from typing import Protocol

from halfline.engine.plan import Chunk
from halfline.engine.sequence import Sequence
from halfline.engine.speculation.draft import Draft, DraftCounts


class Drafter(Protocol):
    """Guesses what sequences say next. Whatever it proposes, only speed depends on it."""

    def propose(
        self, rooms: Mapping[Sequence, int], num_rows: int, num_spare_rows: int
    ) -> Mapping[Sequence, Draft]:
        """Drafts for some of the sequences that are about to sample.

        `rooms`: how many tokens of a draft could count for each. The step has `num_rows` rows without drafts and
        takes `num_spare_rows` more.
        """

    def step_ran(self, num_rows: int, step_ms: float) -> None:
        """A step of so many rows, drafts included, took so long from plan to results."""

    def ended(self, sequence: Sequence) -> None:
        """No more will come of this sequence, whose tokens are all there is to learn from it."""


class NoGuesses:
    """The drafter that has none."""

    def propose(
        self, rooms: Mapping[Sequence, int], num_rows: int, num_spare_rows: int
    ) -> Mapping[Sequence, Draft]:
        return {}

    def step_ran(self, num_rows: int, step_ms: float) -> None:
        """Nothing to learn for."""

    def ended(self, sequence: Sequence) -> None:
        """Nothing is remembered."""


class Drafting:
    """Fits drafts into the scheduler's steps, and keeps count of them. Forced tokens come before a drafter's guesses,
    but not before a proposal, which has them too.
    """

    def __init__(self, drafter: Drafter, step_tokens: int) -> None:
        self._drafter = drafter
        self._step_tokens = step_tokens
        self.counts = DraftCounts()

    def plan(self, num_tokens: Mapping[Sequence, int]) -> Mapping[Sequence, Draft]:
        """Drafts for those whose last pending token is in the step, which runs `num_tokens` of each without them."""
        num_rows = sum(num_tokens.values())
        rooms = {
            sequence: sequence.num_left - 1 + len(sequence.forced_draft)
            for sequence, count in num_tokens.items()
            if count == sequence.num_pending and sequence.work.max_new_tokens > 0
        }
        drafts: dict[Sequence, Draft] = {}
        forced = [each for each in rooms if each.forced_draft]
        for sequence in [each for each in forced if each.work.proposal is None]:
            del rooms[sequence]
            num_rows += _add_forced(drafts, sequence, self._step_tokens - num_rows)
        if not rooms:
            return drafts
        num_spare = self._step_tokens - num_rows
        for sequence, draft in self._drafter.propose(rooms, num_rows, num_spare).items():
            num_spare -= _add(drafts, sequence, draft, min(rooms[sequence], num_spare))
        for sequence in [each for each in forced if each in rooms and each not in drafts]:
            num_spare -= _add_forced(drafts, sequence, num_spare)
        return drafts

    def step_ran(self, num_rows: int, step_ms: float) -> None:
        self._drafter.step_ran(num_rows, step_ms)

    def checked(self, chunk: Chunk, num_accepted: int) -> None:
        """The chunk ran; of its draft, if it has one, the model agreed with the first `num_accepted` tokens."""
        if chunk.draft is not None:
            self.counts.count(chunk.draft, num_accepted)
            chunk.sequence.drafts.count(chunk.draft, num_accepted)

    def ended(self, sequence: Sequence) -> None:
        self._drafter.ended(sequence)


def _add(drafts: dict[Sequence, Draft], sequence: Sequence, draft: Draft, room: int) -> int:
    """Add what of the sequence's draft fits in so many rows; how many it takes."""
    token_ids = _fit(sequence, draft.token_ids[:room])
    if token_ids:
        drafts[sequence] = Draft(token_ids, draft.source)
    return len(token_ids)


def _add_forced(drafts: dict[Sequence, Draft], sequence: Sequence, room: int) -> int:
    return _add(drafts, sequence, Draft(sequence.forced_draft, "forced"), room)


def _fit(sequence: Sequence, token_ids: tuple[int, ...]) -> tuple[int, ...]:
    """What of the draft can come true before the sequence ends, as far as free blocks give it room."""
    for position, token_id in enumerate(token_ids):
        if token_id in sequence.work.stop_token_ids:
            token_ids = token_ids[:position]
            break
    first_place = len(sequence.token_ids)
    token_ids = token_ids[: sequence.table.kv_format.num_revocable(first_place)]
    if not sequence.table.grow(len(sequence.token_ids) + len(token_ids)):
        token_ids = token_ids[: sequence.table.num_places - len(sequence.token_ids)]
    return token_ids
