"""One completion inside the engine: what is asked of it, and how far it has come."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from halfline.engine.hidden_mean import HiddenMean
from halfline.engine.phases import Phases
from halfline.engine.speculation.draft import DraftCounts, DraftSource, Proposal
from halfline.engine.speculation.repeats import Repeats
from halfline.kv.block_table import BlockTable
from halfline.request import FinishReason, Priority
from halfline.sampling.reader import NOTHING, Piece, Reader
from halfline.sampling.sampler import Sampler, Scored


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One sequence asked of the engine. `sampler` and `reader` carry state and belong to this sequence alone.

    `max_new_tokens` 0 computes the prompt's KV and nothing more. `stop_token_ids` end it and are not shown.
    `namespace` (kv/namespace.py) says with whom KV may be shared, and drafts. `prompt_logprobs` asks to score the
    prompt with that many alternatives per token from the one at `scores_from` on (at least its second), and so has
    what leads to them computed, whoever computed it before; None does not.
    `forced_ids` probably come first, and within `max_forced_tokens` that do not count as new (sampling/healing.py):
    as a draft they cost no further step, whether or not others are made.
    `draft_sources` are texts in which the answer may stand (the rest of the file; an expected answer behind the
    prompt's last tokens): they change how fast it comes, never what it is. Nobody may append to them any more.
    `proposal` is one guess at all of it; None: nobody has any.
    `num_pinned_tokens` of its first ones begin many prompts: their blocks stay when it ends (kv/pins.py).
    `begins_the_next`: whoever cancels it will probably ask for a prompt that begins like this one, so a step that reads
    of it is not in vain. Were it stopped, a prompt that takes longer than a keystroke would never be read.
    `priority`, `key`, `user` and `deadline_ms` (from the submission on; None: none) say whose turn it is
    (engine/urgency.py). `hidden_mean` gathers the prompt's hidden states; None: nobody wants them.
    """

    prompt_ids: tuple[int, ...]
    max_new_tokens: int
    sampler: Sampler
    reader: Reader
    stop_token_ids: frozenset[int]
    namespace: str
    prompt_logprobs: int | None = None
    scores_from: int = 1
    forced_ids: tuple[int, ...] = ()
    max_forced_tokens: int = 0
    draft_sources: tuple[Repeats, ...] = ()
    proposal: Proposal | None = None
    priority: Priority = "interactive"
    key: str = ""
    user: str = ""
    deadline_ms: float | None = None
    hidden_mean: HiddenMean | None = None
    num_pinned_tokens: int = 0
    begins_the_next: bool = False

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise ValueError("a prompt of no tokens has no logits to continue from")

    @property
    def max_tokens(self) -> int:
        """How long it may become, the prompt among it."""
        return len(self.prompt_ids) + self.max_forced_tokens + self.max_new_tokens

    @property
    def scores_only(self) -> bool:
        """Nobody will type on from here: what it leaves in the KV cache is worth less than anything else (C7)."""
        return self.reads_every_row and self.max_new_tokens == 0

    @property
    def reads_every_row(self) -> bool:
        """Whether rows of the prompt are of use for more than their KV, and so have to be computed."""
        return self.prompt_logprobs is not None or self.hidden_mean is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceStats:
    """`num_reused` prompt tokens were taken over at first admission; `num_computed` were run, those run again
    after a preemption too. Queue, prefill and decode (phases.py) add up to the time from submission to end.
    The tokens of a forced text are run, but not generated.
    `drafted` are guessed tokens that were run, `accepted` those of them the model agreed with, by source.
    """

    num_reused: int
    num_computed: int
    num_generated: int
    queue_ms: float
    prefill_ms: float
    decode_ms: float
    drafted: Mapping[str, int] = field(default_factory=dict)
    accepted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a sequence ended. `failure` says why when the reason is "failed"."""

    finish_reason: FinishReason
    stats: SequenceStats
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """What one sequence gained in one step; the last one of a sequence has its outcome.

    `prompt_scores` are the next prompt tokens' scores, from the prompt's second token on. `sampled` are its next tokens
    whether or not they may be shown, a stop token among them; `agreed` is who guessed some of them right, None: nobody.
    """

    sequence_id: int
    piece: Piece = NOTHING
    prompt_scores: tuple[Scored, ...] = ()
    outcome: Outcome | None = None
    sampled: tuple[Scored, ...] = ()
    agreed: DraftSource | None = None


@dataclass(slots=True, eq=False)
class Sequence:
    """One completion in flight. Only the scheduler changes it.

    Its tokens, prompt and output, fall into three ranges:

        [0, adopted)              KV taken over from the prefix index
        [adopted, num_computed)   KV written by our own steps
        [num_computed, len)       pending: one token is decode, more is prefill

    A preemption gives the blocks back and makes everything pending again.
    """

    id: int
    work: Work
    table: BlockTable
    arrival_step: int
    submitted_at: float
    running: bool = False  # admitted, and so on the scheduler's list of those that may hold blocks
    token_ids: list[int] = field(init=False)
    num_computed: int = 0
    num_scored: int = field(init=False)  # prompt tokens whose score was reported, or is not wanted
    num_generated: int = 0  # sampled tokens, a stop token included
    num_reused: int | None = None  # adopted at first admission; None before
    num_run: int = 0
    num_unguessed: int = 0  # of its latest tokens, so many in a row came without a draft
    phases: Phases = field(init=False)
    drafts: DraftCounts = field(default_factory=DraftCounts)
    _num_forced_before: int = field(init=False)

    def __post_init__(self) -> None:
        self.token_ids = list(self.work.prompt_ids)
        self.phases = Phases(self.submitted_at)
        self.num_scored = self.work.scores_from - 1
        self._num_forced_before = self.work.reader.num_forced

    @property
    def num_prompt(self) -> int:
        return len(self.work.prompt_ids)

    @property
    def num_left(self) -> int:
        """New tokens that may still come; those of a forced text are not new."""
        return self.work.max_new_tokens - (self.num_generated - self.num_forced)

    @property
    def num_forced(self) -> int:
        """Sampled tokens that are only the forced text's. A reader may have been fed some before."""
        return self.work.reader.num_forced - self._num_forced_before

    @property
    def forced_draft(self) -> tuple[int, ...]:
        """The forced tokens that have not come yet, if those that came are as expected."""
        forced_ids, num_come = self.work.forced_ids, len(self.token_ids) - self.num_prompt
        if num_come >= len(forced_ids):
            return ()
        as_expected = self.token_ids[self.num_prompt :] == list(forced_ids[:num_come])
        return forced_ids[num_come:] if as_expected else ()

    @property
    def num_pending(self) -> int:
        return len(self.token_ids) - self.num_computed

    @property
    def due_at(self) -> float | None:
        """The clock's second by which its answer is wanted; None: any time will do."""
        deadline_ms = self.work.deadline_ms
        return None if deadline_ms is None else self.submitted_at + deadline_ms / 1e3

    @property
    def num_reusable(self) -> int:
        """How many of its first tokens may be taken over. Rows that are still to be read have to be computed, whoever
        computed them before.
        """
        if self.work.hidden_mean is not None and not self.work.hidden_mean.complete:
            return 0
        if self.work.prompt_logprobs is None or self.num_scored >= self.num_prompt - 1:
            return len(self.token_ids)
        return self.num_scored

    def outcome(
        self, reason: FinishReason, last_step: int, now: float, failure: str | None = None
    ) -> Outcome:
        """How it ended at `now` (the clock's seconds), after the step of that number."""
        self.phases.ended(last_step, now)
        stats = SequenceStats(
            num_reused=self.num_reused or 0,
            num_computed=self.num_run,
            num_generated=self.num_generated - self.num_forced,
            queue_ms=self.phases.queue_s * 1e3,
            prefill_ms=self.phases.prefill_s * 1e3,
            decode_ms=self.phases.decode_s * 1e3,
            drafted=self.drafts.drafted(),
            accepted=self.drafts.accepted(),
        )
        return Outcome(reason, stats, failure)
