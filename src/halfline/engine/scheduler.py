"""Decides what each step runs, and records what came of it.

There is no prefill phase and no decode phase: a sequence has pending tokens, a step has a budget. Each plan
gives every sequence of the most urgent class that decodes its one token, and spends the rest of the step on prompts,
most urgent first (engine/urgency.py), as far as there is room for them (engine/step_room.py). What decodes beside a
more urgent class takes what time is left. Drafts come last (engine/drafting.py). Idle work pauses as long as there is
any other.

One that does not fit is passed by those that do, until it has waited long enough: then fewer and fewer pass it, and
whoever has more than its share gives way.

Blocks run out while output grows, or when somebody more urgent comes. Then the least urgent class, and in it the latest
arrival, is preempted: its blocks go back, it waits, and what the index still knows of it is reused when it returns. The
most urgent running sequence can always take blocks from all others and fits alone (`max_sequence_tokens` is enforced at
the door), so something always advances.

Knows no hashes, tensors, text or clocks: times are passed in.
"""

from bisect import insort
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from halfline.engine.admission import Admission
from halfline.engine.appending import append
from halfline.engine.drafting import Drafter, Drafting, NoGuesses
from halfline.engine.greedy_runs import GreedyRuns
from halfline.engine.options import EngineOptions
from halfline.engine.passing import Passing
from halfline.engine.plan import Chunk, ChunkResult, Plan, next_chunk
from halfline.engine.sequence import Progress, Sequence, Work
from halfline.engine.stats import EngineStats
from halfline.engine.step_room import StepRoom
from halfline.engine.urgency import IDLE, Urgency
from halfline.errors import InvariantBroken
from halfline.kv.block_pool import BlockPool, Worth
from halfline.kv.block_table import BlockTable, check_accounts
from halfline.kv.pins import Pins
from halfline.kv.prefix_index import NO_MATCH, Match, Node, PrefixIndex
from halfline.model.kv_format import BLOCK_TOKENS, F16, KvFormat
from halfline.request import FinishReason
from halfline.sampling.reader import NOTHING, Piece
from halfline.sampling.sampler import Scored


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a step that is being planned goes by, and what it has so far."""

    now: float
    ranks: Mapping[Sequence, int]  # of all but those on hold
    paused: AbstractSet[Sequence]
    num_tokens: dict[Sequence, int]

    def worth(self, sequence: Sequence) -> tuple[int, int]:
        """Who keeps blocks that somebody else needs: lower keeps them longer."""
        return self.ranks[sequence], sequence.id


class Scheduler:
    """Owns the sequences and the accounts of their blocks. One thread calls it: plan, then commit or abandon.

    `drafter` None: nothing is guessed. `pins` None: nothing is kept for those to come. `max_run_tokens`: the most that
    the executor is asked to choose by itself; 1: it cannot, or shall not.
    """

    def __init__(
        self,
        pool: BlockPool,
        index: PrefixIndex,
        options: EngineOptions,
        drafter: Drafter | None = None,
        kv_format: KvFormat = F16,
        pins: Pins | None = None,
        max_run_tokens: int = 1,
    ) -> None:
        self._kv_format = kv_format
        self._reuses = options.prefix_caching == "on"
        self._pins = pins or Pins(pool, index, 0)
        self._pool = pool
        self._index = index
        self._drafting = Drafting(drafter or NoGuesses(), options.step_tokens)
        self._runs = GreedyRuns(max_run_tokens)
        self._admission = Admission(pool, options.max_num_seqs)
        self._urgency = Urgency(options.patience_s, options.step_tokens)
        self._room = StepRoom(options)
        self._waiting: list[Sequence] = []  # they hold no blocks
        self._running: list[Sequence] = []  # earliest arrival first
        self._by_id: dict[int, Sequence] = {}
        self._on_hold: set[int] = set()  # of the waiting ones
        self._in_flight: Plan | None = None
        self._untold: list[Progress] = []  # of the call that is being made
        self._num_steps = 0
        self._num_computed = 0
        self._num_reused = 0
        self._num_generated = 0
        self._num_preemptions = 0
        self._num_copied = 0

    @property
    def idle(self) -> bool:
        return not self._by_id

    @property
    def sequence_ids(self) -> list[int]:
        return list(self._by_id)

    @property
    def can_run(self) -> bool:
        """Whether a plan would have anything in it."""
        return len(self._by_id) > len(self._on_hold)

    def add(self, sequence_id: int, work: Work, now: float) -> None:
        """Let it wait for its turn. Its length was checked at the door."""
        table = BlockTable(self._pool, self._index, work.namespace, self._kv_format)
        sequence = Sequence(sequence_id, work, table, self._num_steps, submitted_at=now)
        self._by_id[sequence_id] = sequence
        self._waiting.append(sequence)
        self._urgency.arrived(sequence)

    def hold(self, sequence_id: int) -> None:
        """Its prompt's beginning is on its way from elsewhere: do not compute it until `let_go`."""
        self._on_hold.add(sequence_id)

    def let_go(self, sequence_id: int) -> None:
        """What there was of its prompt has arrived; one that has ended is passed over."""
        self._on_hold.discard(sequence_id)

    def plan(self, now: float) -> Plan:
        """The next step. Empty only when no sequence is left but those on hold."""
        if self._in_flight is not None:
            raise InvariantBroken("a step was planned while another is in flight")
        ranks = {
            sequence: self._urgency.rank(sequence, now)
            for sequence in self._by_id.values()
            if sequence.id not in self._on_hold
        }
        num_urgent = sum(rank == 0 for rank in ranks.values())
        best = min(ranks.values(), default=IDLE)
        paused = {sequence for sequence, rank in ranks.items() if best < rank == IDLE}
        turn = _Turn(now, ranks, paused, num_tokens={})
        self._room.begin(shared=num_urgent > 1 or any(each.work.priority == "batch" for each in ranks))
        self._plan_decodes(turn, best)
        self._plan_prompts(turn)
        self._plan_decodes_behind(turn)
        drafts = self._drafting.plan(turn.num_tokens)
        chunks = [next_chunk(each, count, drafts.get(each)) for each, count in turn.num_tokens.items()]
        if len(self._by_id) == 1:
            chunks = [self._runs.prolonged(chunk) for chunk in chunks]
        yields = all(ranks[each] == IDLE for each in turn.num_tokens)
        plan = Plan(tuple(chunks), now, yields)
        if plan.chunks:
            self._in_flight = plan
        return plan

    def commit(self, plan: Plan, results: list[ChunkResult], now: float) -> list[Progress]:
        """Record what the step computed; what each sequence gained by it."""
        self._in_flight = None
        self._num_steps += 1
        self._num_copied += len(plan.copies)
        if not plan.goes_on:  # several steps in a row say nothing of one
            step_ms = (now - plan.planned_at) * 1e3
            self._room.learn(plan, step_ms)
            self._drafting.step_ran(plan.num_rows, step_ms)
        return self._told(
            self._record(chunk, result, plan.planned_at, now)
            for chunk, result in zip(plan.chunks, results, strict=True)
        )

    def abandon(self) -> None:
        """The step in flight was stopped: nothing it would have written counts, its copies are made again."""
        self._in_flight = None
        self._num_steps += 1

    def end(self, sequence_ids: Iterable[int], reason: FinishReason, now: float) -> list[Progress]:
        """End sequences from outside, wherever they are; those that ended already are passed over."""
        found = [self._by_id[sequence_id] for sequence_id in sequence_ids if sequence_id in self._by_id]
        return self._told(self._end(sequence, reason, now) for sequence in found)

    def give_up(self, now: float) -> list[Progress]:
        """The engine broke: everybody ends as "failed" who did not end before it did, be it in the very call that
        broke it. The accounts, perhaps the culprit, stay as they are.
        """
        failed = [
            Progress(each.id, outcome=each.outcome("failed", self._num_steps, now))
            for each in self._by_id.values()
        ]
        return [*self._untold, *failed]

    def stats(self) -> EngineStats:
        return EngineStats(
            num_pinned_blocks=self._pins.num_blocks,
            num_running=len(self._running),
            num_waiting=len(self._waiting),
            num_blocks=self._pool.num_blocks,
            num_held_blocks=self._pool.num_held,
            num_cached_blocks=self._pool.num_cached,
            num_blank_blocks=self._pool.num_free - self._pool.num_cached,
            total_steps=self._num_steps,
            total_computed_tokens=self._num_computed,
            total_reused_tokens=self._num_reused,
            total_generated_tokens=self._num_generated,
            total_preemptions=self._num_preemptions,
            total_drafted_tokens=self._drafting.counts.drafted(),
            total_accepted_tokens=self._drafting.counts.accepted(),
            total_greedy_run_tokens=self._runs.num_tokens,
            total_tokens_beyond=self._runs.num_beyond,
            total_copied_blocks=self._num_copied,
            total_evicted_tails=self._pool.num_evicted(Worth.TAIL),
            total_evicted_blocks=self._pool.num_evicted(Worth.BLOCK),
        )

    def check(self) -> None:
        """Raise InvariantBroken unless queues, tables, pool and index agree. Walks everything."""
        check_accounts(self._pool, self._index, [each.table for each in self._running], self._pins)
        if any(sequence.table.block_ids or sequence.num_computed for sequence in self._waiting):
            raise InvariantBroken("a waiting sequence holds blocks")
        if not self._on_hold <= {sequence.id for sequence in self._waiting}:
            raise InvariantBroken(f"sequences {sorted(self._on_hold)} are on hold, and not all of them wait")
        queued = sorted(sequence.id for sequence in [*self._waiting, *self._running])
        if queued != sorted(self._by_id):
            raise InvariantBroken(f"sequences {sorted(self._by_id)} are known, {queued} are queued")
        for sequence in self._running:
            # One that took over full blocks and got no rows yet has no room for more.
            if self._kv_format.num_blocks_at(sequence.num_computed) > len(sequence.table.block_ids):
                raise InvariantBroken(f"sequence {sequence.id} computed past its blocks")

    def _plan_decodes(self, turn: _Turn, rank: int) -> None:
        for sequence in self._decoding(turn):
            # An earlier one may just have preempted it.
            if sequence.running and turn.ranks[sequence] == rank:
                self._plan_chunk(sequence, 1, turn)

    def _plan_decodes_behind(self, turn: _Turn) -> None:
        """Those that decode beside a more urgent class: a hundred rows of batch work take as long as a prompt."""
        for sequence in self._decoding(turn):
            if not self._room.has_time(sequence, turn.num_tokens):
                break
            if sequence.running and sequence not in turn.num_tokens:
                self._plan_chunk(sequence, 1, turn)

    def _decoding(self, turn: _Turn) -> list[Sequence]:
        """The most urgent first."""
        decoding = (each for each in self._running if each.num_pending == 1 and each not in turn.paused)
        return sorted(decoding, key=turn.worth)

    def _plan_prompts(self, turn: _Turn) -> None:
        prompts = [each for each in self._running if each.num_pending > 1 and each not in turn.paused]
        # By the block that comes next, the most urgent of those that compute it.
        computing: dict[tuple[Node, bytes] | None, Sequence] = {}
        for prompt in prompts:
            _computes(prompt, computing, turn)
        waiting = [each for each in self._waiting if each.id not in self._on_hold and each not in turn.paused]
        passing = Passing(self._urgency, self._running, turn.now)
        for sequence in self._urgency.line_up([*prompts, *waiting], turn.now):
            if self._room.full(turn.num_tokens):
                break
            if not sequence.running:
                if not passing.may_try(sequence):
                    continue
                match = self._match(sequence)
                ahead = computing.get(match.missed)
                if ahead is not None and ahead.running and turn.ranks[ahead] <= turn.ranks[sequence]:
                    # A running prompt begins alike: wait for its blocks, do not compute them twice, and let it have
                    # this turn to compute them. Not for one of a lower class, which may get no rows meanwhile.
                    sequence = ahead
                elif (fitting := self._make_room(sequence, match, turn)) is not None:
                    self._admit(sequence, fitting)
                    _computes(sequence, computing, turn)
                else:
                    passing.does_not_fit(sequence)
                    continue
            if sequence not in turn.num_tokens:
                hurry = turn.ranks[sequence] != IDLE
                count = self._room.rows_for(sequence, turn.num_tokens, hurry=hurry)
                if count:
                    self._plan_chunk(sequence, count, turn)

    def _make_room(self, sequence: Sequence, match: Match, turn: _Turn) -> Match | None:
        """What it may adopt, after those of a lower class were preempted as far as need be, and when it has waited too
        long those who have more than their share.

        None: it does not fit even so, and nothing was preempted for it.
        """
        rank = turn.ranks[sequence]
        leaving = {each for each in self._running if turn.ranks[each] > rank}
        leaving |= set(self._urgency.owing(sequence, self._running, turn.now))
        peers = [each for each in self._running if each not in leaving]
        lower = sorted(leaving, key=turn.worth)
        if not self._admission.fits(sequence, match, peers, lower=(), leaving=lower):
            return None
        while not self._admission.fits(sequence, match, peers, lower):
            if not lower:
                return None  # a copy for a better match, found only now, is one block too many
            turn.num_tokens.pop(lower[-1], None)
            self._preempt(lower.pop())
            match = self._match(sequence)
        return match

    def _plan_chunk(self, sequence: Sequence, count: int, turn: _Turn) -> None:
        """Make room for its next `count` tokens, if need be by preempting those less urgent; else it stays out."""
        while not sequence.table.grow(sequence.num_computed + count):
            least = max(self._running, key=turn.worth)
            if least is sequence:
                return
            self._preempt(least)
            turn.num_tokens.pop(least, None)
        turn.num_tokens[sequence] = count

    def _match(self, sequence: Sequence) -> Match:
        num_reusable = sequence.num_reusable if self._reuses else 0
        if num_reusable == 0:
            return NO_MATCH
        # A match leaves the last token out.
        return sequence.table.match(sequence.token_ids[: num_reusable + 1])

    def _admit(self, sequence: Sequence, match: Match) -> None:
        self._waiting.remove(sequence)
        insort(self._running, sequence, key=_arrival)
        sequence.running = True
        sequence.num_computed = sequence.table.adopt(match)
        if sequence.num_reused is None:
            sequence.num_reused = sequence.num_computed
            self._num_reused += sequence.num_computed

    def _preempt(self, sequence: Sequence) -> None:
        self._num_preemptions += 1
        self._running.remove(sequence)
        self._release(sequence)
        self._waiting.append(sequence)

    def _told(self, progress: Iterable[Progress | None]) -> list[Progress]:
        """What each gained. Where one of them breaks the engine, those before it are told of by `give_up`."""
        for each in progress:
            if each is not None:
                self._untold.append(each)
        told, self._untold = self._untold, []
        return told

    def _record(self, chunk: Chunk, result: ChunkResult, planned_at: float, now: float) -> Progress | None:
        sequence = chunk.sequence
        sequence.phases.ran(self._num_steps, planned_at, now, decodes=sequence.num_generated > 0)
        sequence.num_scored = max(sequence.num_scored, chunk.scored_rows.stop)
        sequence.num_computed = chunk.stop
        num_before = sequence.num_generated
        piece, reason = append(sequence, result.sampled)
        sampled = result.sampled[: sequence.num_generated - num_before]
        self._runs.ran(chunk, len(result.sampled), len(sampled))
        self._num_generated += len(sampled)
        self._count(chunk, now)
        sequence.table.copied()
        sequence.table.publish(sequence.token_ids, sequence.num_computed)
        if (
            chunk.start < sequence.num_prompt <= chunk.stop
        ):  # others with the same prompt need not compute its end
            sequence.table.publish_tail(sequence.token_ids, sequence.num_computed)
        if reason is None and result.failure is not None:
            return self._end(
                sequence,
                "failed",
                now,
                piece=piece,
                prompt_scores=result.prompt_scores,
                sampled=sampled,
                failure=result.failure,
            )
        if not chunk.samples and sequence.num_pending == 0:  # nothing was to be generated
            reason = "length"
        agreed = chunk.draft.source if chunk.draft is not None and len(sampled) > 1 else None
        if reason is not None:
            progress = self._end(
                sequence, reason, now, piece=piece, prompt_scores=result.prompt_scores, sampled=sampled
            )
            return replace(progress, agreed=agreed)
        if sampled or result.prompt_scores:
            return Progress(sequence.id, piece, result.prompt_scores, sampled=sampled, agreed=agreed)
        return None

    def _count(self, chunk: Chunk, now: float) -> None:
        """Only places whose KV stays count as computed; what a draft cost beyond them is in the draft's counts."""
        num_computed = chunk.sequence.num_computed - chunk.start
        self._num_computed += num_computed
        self._urgency.ran(chunk.sequence, num_computed)
        if chunk.num_tokens > 1 or chunk.start < chunk.sequence.num_prompt:
            self._urgency.had_rows(chunk.sequence, now)
        chunk.sequence.num_run += num_computed
        self._drafting.checked(chunk, num_computed - chunk.num_tokens)

    def _end(
        self,
        sequence: Sequence,
        reason: FinishReason,
        now: float,
        *,
        piece: Piece = NOTHING,
        prompt_scores: tuple[Scored, ...] = (),
        sampled: tuple[Scored, ...] = (),
        failure: str | None = None,
    ) -> Progress:
        self._on_hold.discard(sequence.id)
        self._urgency.left(sequence)
        self._drafting.ended(sequence)
        if sequence.running:
            self._running.remove(sequence)
            self._release(sequence)
        else:
            self._waiting.remove(sequence)
        outcome = sequence.outcome(reason, self._num_steps, now, failure)
        del self._by_id[sequence.id]  # only now: whoever broke the engine above is among those it gives up
        return Progress(sequence.id, piece, prompt_scores, outcome, sampled)

    def _release(self, sequence: Sequence) -> None:
        """The one place where blocks go back, and never while a step may still write to them."""
        if self._in_flight is not None:
            raise InvariantBroken(f"sequence {sequence.id} would give back blocks that a step is writing")
        sequence.table.publish_tail(sequence.token_ids, sequence.num_computed)
        sequence.table.pin(self._pins, sequence.work.num_pinned_tokens)
        if sequence.work.scores_only:
            # What leads to the scores may be a prompt that somebody types on from.
            sequence.table.release_cold(sequence.work.scores_from // BLOCK_TOKENS)
        else:
            sequence.table.release()
        sequence.running = False
        sequence.num_computed = 0


def _computes(prompt: Sequence, computing: dict[tuple[Node, bytes] | None, Sequence], turn: _Turn) -> None:
    block = prompt.table.next_block(prompt.token_ids)
    known = computing.setdefault(block, prompt)
    if turn.ranks[prompt] < turn.ranks[known]:
        computing[block] = prompt


def _arrival(sequence: Sequence) -> int:
    return sequence.id
