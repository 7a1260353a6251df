"""Which guesses a step checks: where they come from, how likely they are, what a row costs.

Sources, for each sequence: its own tokens, texts its caller handed over, what its tenant was lately answered, and a
whole answer that was proposed. Of each the longest repeat of the sequence's last tokens gives one guess; the likeliest
is the draft. How much of it runs is a trade over the whole batch: a row is worth its chance of being right against the
time it adds to everybody's step.

Knows neither blocks nor logits. What it decides changes how fast tokens come, never which.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from halfline.engine.sequence import Sequence
from halfline.engine.speculation.acceptance import Acceptance
from halfline.engine.speculation.draft import Draft, DraftSource
from halfline.engine.speculation.idle_texts import IdleTexts
from halfline.engine.speculation.repeats import MAX_MATCHED, Repeats
from halfline.engine.speculation.step_costs import StepCosts

_MAX_ROWS = 64
"""Larger steps are bound by arithmetic, there a row costs what it costs alone: nothing is guessed but what somebody
proposed."""

_HOPELESS = 0.02
"""Chance below which a row is worth nothing on any machine; saves looking further."""

_MAX_TENANTS = 64
_RECENT_TOKENS = 1 << 12  # of each tenant's answers
_RECENT_CONTEXT = 8  # tokens of the prompt kept before an answer: enough to recognise the place


class Speculation:
    """The engine's `Drafter`; lives on its thread."""

    def __init__(self, max_draft_tokens: int) -> None:
        self._max_draft_tokens = max_draft_tokens
        self._costs = StepCosts()
        self._tenants: OrderedDict[str, _Tenant] = OrderedDict()
        self._idle = IdleTexts()
        self._followers: dict[int, _Follower] = {}  # by sequence id

    def propose(
        self, rooms: Mapping[Sequence, int], num_rows: int, num_spare_rows: int
    ) -> Mapping[Sequence, Draft]:
        large = num_rows >= _MAX_ROWS
        if large:
            rooms = {sequence: room for sequence, room in rooms.items() if sequence.work.proposal is not None}
        else:
            num_spare_rows = min(num_spare_rows, _MAX_ROWS - num_rows)
        if num_spare_rows <= 0 or not rooms:
            return {}
        guesses: dict[Sequence, _Guess] = {}
        for sequence, room in rooms.items():
            guess = self._follower(sequence).guess(min(room, self._max_draft_tokens))
            if guess is not None:
                guesses[sequence] = guess
        if large:
            lengths = self._lengths_beside_prompts(guesses, num_spare_rows)
        else:
            lengths = self._lengths(guesses, len(rooms), num_rows, num_spare_rows)
        return {
            sequence: Draft(guesses[sequence].token_ids[:length], guesses[sequence].source)
            for sequence, length in lengths.items()
        }

    def step_ran(self, num_rows: int, step_ms: float) -> None:
        if num_rows <= _MAX_ROWS:
            self._costs.learn(num_rows, step_ms)

    def ended(self, sequence: Sequence) -> None:
        follower = self._followers.pop(sequence.id, None)
        if follower is not None:
            follower.judge()
            self._idle.put(sequence.work.namespace, follower.own)
        if sequence.num_generated:
            first = max(0, sequence.num_prompt - _RECENT_CONTEXT)
            self._tenant(sequence.work.namespace).remember(sequence.token_ids[first:])

    def _lengths(
        self, guesses: Mapping[Sequence, "_Guess"], num_tokens: float, num_rows: int, num_spare_rows: int
    ) -> dict[Sequence, int]:
        """How much of each guess to run: the likeliest rows first, while each brings tokens faster than the rest.

        The step without drafts gives `num_tokens`. Chances fall along a guess, so what is taken is its beginning.
        """
        if not guesses or not self._costs.known:
            return {}
        offers = [(chance, sequence) for sequence, guess in guesses.items() for chance in guess.chances]
        offers.sort(key=_chance, reverse=True)
        lengths: dict[Sequence, int] = {}
        for chance, sequence in offers[:num_spare_rows]:
            break_even = self._costs.slope_ms * num_tokens / self._costs.ms(num_rows)
            # Not at the break-even itself, where drafts gain nothing and lose as often as they win: at twice that
            # where rows are cheap, and short of certainty where they are dear.
            if chance <= break_even * (2 - break_even):
                break
            lengths[sequence] = lengths.get(sequence, 0) + 1
            num_rows += 1
            num_tokens += chance
        return lengths

    def _lengths_beside_prompts(
        self, guesses: Mapping[Sequence, "_Guess"], num_spare_rows: int
    ) -> dict[Sequence, int]:
        """In a step that arithmetic binds a row costs its own time and nobody a pass over the weights; if its token is
        right, a small step is saved.
        """
        if not self._costs.known:
            return {}
        break_even = self._costs.slope_ms / self._costs.ms(1)
        lengths: dict[Sequence, int] = {}
        for sequence, guess in guesses.items():
            length = sum(chance > break_even * (2 - break_even) for chance in guess.chances)
            lengths[sequence] = min(length, num_spare_rows)
            num_spare_rows -= lengths[sequence]
        return {sequence: length for sequence, length in lengths.items() if length}

    def _follower(self, sequence: Sequence) -> "_Follower":
        follower = self._followers.get(sequence.id)
        if follower is None:
            namespace = sequence.work.namespace
            own = self._idle.take(namespace, sequence.token_ids)
            follower = self._followers[sequence.id] = _Follower(sequence, self._tenant(namespace), own)
        return follower

    def _tenant(self, namespace: str) -> "_Tenant":
        tenant = self._tenants.pop(namespace, None) or _Tenant()
        self._tenants[namespace] = tenant
        if len(self._tenants) > _MAX_TENANTS:
            self._tenants.popitem(last=False)
        return tenant


def _chance(offer: tuple[float, Sequence]) -> float:
    return offer[0]


class _Tenant:
    """All that is remembered of one tenant's sequences after their end."""

    def __init__(self) -> None:
        self.acceptance = Acceptance()
        self.recent = Repeats()

    def remember(self, token_ids: list[int]) -> None:
        """Keep the latest tokens; where two answers meet a guess may run across, and is then merely a bad one."""
        if len(self.recent) > _RECENT_TOKENS:
            self.recent = Repeats(
                self.recent.after(len(self.recent) - _RECENT_TOKENS // 2, _RECENT_TOKENS // 2)
            )
        self.recent.extend(token_ids[-_RECENT_TOKENS:])


@dataclass(frozen=True, slots=True)
class _Guess:
    """What the tokens from `start` of the sequence on might be. `chances[i]`: that the first i + 1 of them are right,
    as far as there is any hope.

    `token_ids[i]` follows `num_matched + i` tokens that match, if those before it are right.
    """

    source: DraftSource
    num_matched: int
    token_ids: tuple[int, ...]
    start: int
    chances: tuple[float, ...]


class _Follower:
    """Makes guesses for one sequence and learns from what became of them."""

    def __init__(self, sequence: Sequence, tenant: _Tenant, own: Repeats) -> None:
        self._sequence = sequence
        self._tenant = tenant
        self.own = own
        self._given = sequence.work.draft_sources
        self._proposal = sequence.work.proposal
        self._guess: _Guess | None = None
        self._num_right = self._num_expected = _LIKE_OTHERS

    def guess(self, max_tokens: int) -> _Guess | None:
        """The likeliest guess at the tokens behind the sequence's last; None without any."""
        self.judge()
        self.own.extend(self._sequence.token_ids[len(self.own) :])
        self._guess = None
        if max_tokens > 0:
            self._guess = self._likeliest(max_tokens)
        return self._guess

    def judge(self) -> None:
        """Learn from the guess made last, as far as the real tokens are known by now."""
        guess, self._guess = self._guess, None
        if guess is None:
            return
        real = self._sequence.token_ids[guess.start :]
        for position, (token_id, guessed) in enumerate(zip(real, guess.token_ids, strict=False)):
            right = token_id == guessed
            num_matched = guess.num_matched + position
            self._num_expected += self._tenant.acceptance.chance(guess.source, num_matched)
            self._num_right += right
            self._tenant.acceptance.learn(guess.source, num_matched, right)
            if not right:
                break

    def _likeliest(self, max_tokens: int) -> _Guess | None:
        recent = self._sequence.token_ids[-MAX_MATCHED - 1 :]
        chance_of = self._tenant.acceptance.chance
        best: tuple[float, DraftSource, int, tuple[int, ...]] | None = None
        for source, repeats in self._sources():
            found = repeats.find(recent)
            if found is None:
                continue
            chance = chance_of(source, found.num_matched)
            if best is None or chance > best[0]:
                follow = repeats.onward if source == "own" else repeats.after
                best = (chance, source, found.num_matched, follow(found.place, max_tokens))
        if best is None:
            return None
        _, source, num_matched, token_ids = best
        # A sequence whose guesses come true more often than its tenant's usually do goes on doing so.
        luck = self._num_right / self._num_expected
        chances, chance = [], 1.0
        for position in range(len(token_ids)):
            chance *= min(0.98, luck * chance_of(source, num_matched + position))
            if chance < _HOPELESS:
                break
            chances.append(chance)
        return _Guess(source, num_matched, token_ids, len(self._sequence.token_ids), tuple(chances))

    def _sources(self) -> list[tuple[DraftSource, Repeats]]:
        sources: list[tuple[DraftSource, Repeats]] = [("own", self.own), ("recent", self._tenant.recent)]
        sources += [("given", repeats) for repeats in self._given]
        # First: where all match alike, what was guessed for this very place is the better guess.
        return (
            sources if self._proposal is None else [(self._proposal.source, self._proposal.tokens), *sources]
        )


_LIKE_OTHERS = 6.0
"""Guesses' worth of belief that a sequence is like its tenant's others."""
