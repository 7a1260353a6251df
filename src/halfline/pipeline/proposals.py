"""Has answers guessed by the caches' guessing tiers, and read by the model as drafts (C3).

A guess is a question: one pass over its tokens says how far the model agrees, that far it is the answer, and the rest
is generated. So no guess is ever wrong, only in vain, and whether looking for one pays is kept account of.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from halfline.cache.exact import KEPT_REASONS
from halfline.cache.guessing import Cursor, GuessingTier, Look
from halfline.cache.worth import Totals, Worth
from halfline.engine.sequence import Progress
from halfline.engine.speculation.draft import Proposal
from halfline.engine.speculation.repeats import Repeats
from halfline.errors import UnencodableText
from halfline.pipeline.prompt import Prompt
from halfline.request import CompletionRequest, Document, Tier
from halfline.sampling.sampler import Scored
from halfline.text.tokenizer import Tokenizer

_FORGET = 1 / 64

_CONTEXT = 4
"""Tokens of the prompt before a proposal: enough to find its beginning, and few enough that how often a proposal's
first token is right is told apart from how often its fourth is, when three were (engine/speculation/acceptance.py)."""


class Proposals:
    """Lives on the event loop. The tiers are asked in their order, the first guess counts."""

    def __init__(
        self,
        tiers: Sequence[GuessingTier],
        tokenizer: Tokenizer,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._tiers = [(tier, Worth()) for tier in tiers]
        self._tokenizer = tokenizer
        self._clock = clock
        self._token_ms: float | None = None  # of a step without a proposal; None: none has been seen

    def about(self, request: CompletionRequest, prompt: Prompt) -> "Proposing | None":
        """For a request whose every token is the best one; None where no tier has anything to do with it."""
        if not self._tiers or request.caching != "use":
            return None
        cursor = _cursor(request)
        if cursor is None:
            return None
        proposing = Proposing(self, prompt)
        for tier, worth in self._tiers:
            if not worth.wants_look():
                continue
            started = self._clock()
            look = tier.look(cursor)
            guess = None if look is None or proposing.proposal is not None else look.guess()
            proposal = None if guess is None else self._proposal(tier, prompt, guess)
            if proposal is not None:
                proposing.proposal = proposal
            cost_ms = (self._clock() - started) * 1e3
            proposing.looks.append(_Looked(worth, look, cost_ms, proposal))
        return proposing

    def totals(self) -> Mapping[str, Totals]:
        """By tier."""
        return {tier.source: worth.totals for tier, worth in self._tiers}

    def learn(self, proposing: "Proposing", progress: Progress, tokens: Sequence[Scored]) -> None:
        """The answer has ended."""
        outcome = progress.outcome
        assert outcome is not None
        token_ms = self._token_ms or 0.0
        for looked in proposing.looks:
            num_accepted = 0
            if looked.proposal is not None:
                num_accepted = outcome.stats.accepted.get(looked.proposal.source, 0)
            looked.worth.looked(
                looked.cost_ms,
                num_accepted,
                token_ms,
                proposed=looked.proposal is not None,
                whole=num_accepted > 0
                and looked.proposal is proposing.proposal
                and proposing.right is not None,
            )
        stats = outcome.stats
        if proposing.proposal is None and stats.num_generated > 1:
            step_ms = stats.decode_ms / (stats.num_generated - 1)
            known_ms = step_ms if self._token_ms is None else self._token_ms
            self._token_ms = known_ms + _FORGET * (step_ms - known_ms)
        if outcome.finish_reason in KEPT_REASONS:
            self._remember(proposing, tokens)

    def _remember(self, proposing: "Proposing", tokens: Sequence[Scored]) -> None:
        prompt = proposing.prompt
        token_ids = [each.token_id for each in tokens if each.token_id not in prompt.stop_token_ids]
        # A character that is cut short stands for nothing.
        text = self._tokenizer.decode(token_ids).rstrip("\ufffd")
        if not text.startswith(prompt.forced_text):
            return
        for looked in proposing.looks:
            if looked.look is not None:
                looked.look.learn(text[len(prompt.forced_text) :])

    def _proposal(self, tier: GuessingTier, prompt: Prompt, guess: str) -> Proposal | None:
        try:
            token_ids = self._tokenizer.encode(prompt.forced_text + guess, add_bos=False, continues=True)
        except UnencodableText:  # half a character, which came from nobody's request
            return None
        if not token_ids:
            return None
        return Proposal(tier.source, Repeats((*prompt.token_ids[-_CONTEXT:], *token_ids)))


@dataclass(frozen=True, slots=True)
class _Looked:
    worth: Worth
    look: Look | None
    cost_ms: float
    proposal: Proposal | None


@dataclass(slots=True)
class Proposing:
    """For one request; a listener of its answer. `proposal` None: no tier had a guess."""

    proposals: Proposals
    prompt: Prompt
    proposal: Proposal | None = None
    looks: list[_Looked] = field(default_factory=list)
    tokens: list[Scored] = field(default_factory=list)
    ended: bool = False

    @property
    def right(self) -> Tier | None:
        """The tier whose guess the answer is. Its last token comes with the pass over those before it: that need not
        have been guessed.
        """
        token_ids = tuple(each.token_id for each in self.tokens[:-1])
        if self.proposal is None or not self.ended or not token_ids:
            return None
        num_context = min(_CONTEXT, len(self.prompt.token_ids))
        guessed_ids = self.proposal.tokens.after(num_context, len(token_ids))
        return self.proposal.source if guessed_ids == token_ids else None

    def __call__(self, position: int, progress: Progress) -> None:
        self.tokens += progress.sampled
        if progress.outcome is not None:
            self.ended = True
            self.proposals.learn(self, progress, self.tokens)


def _cursor(request: CompletionRequest) -> Cursor | None:
    """Token ids are text to nobody here."""
    prompt = request.prompt
    if isinstance(prompt, Document):
        return Cursor(request.tenant, prompt.prefix, prompt.suffix, prompt.path)
    return Cursor(request.tenant, prompt, "", None) if isinstance(prompt, str) else None
