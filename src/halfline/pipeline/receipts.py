"""Where the milliseconds and tokens of the latest requests went (C11)."""

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from halfline.engine.sequence import Outcome
from halfline.pipeline.answers import Begun
from halfline.pipeline.following import Follower
from halfline.request import FinishReason, Receipt, Tier
from halfline.sampling.reader import Piece


@dataclass(frozen=True, slots=True)
class Trace:
    """What a receipt is made of. The last numbers of a generation that was cancelled, or late, arrive after its request
    has ended: until then a receipt is written anew whenever it is asked for.
    """

    request_id: str
    num_prompt_tokens: int
    num_choices: int
    ledger: Mapping[str, object]
    follower: Follower
    total_ms: float
    endings: Sequence[Piece] = ()  # the last piece of each choice that came to its end
    address: str | None = None

    @property
    def final(self) -> bool:
        """Whether no number will change any more."""
        return len(self.follower.outcomes) == self.num_choices

    def receipt(self) -> Receipt:
        outcomes = [self.follower.outcome(choice) for choice in range(self.num_choices)]
        reasons: tuple[FinishReason, ...] = tuple(outcome.finish_reason for outcome in outcomes)
        num_generated = sum(outcome.stats.num_generated for outcome in outcomes)
        if self.follower.coalesced_with is not None:
            return self._of_another(reasons, num_generated)
        first = outcomes[0].stats  # admitted first: what it reused was there before the request
        begun = self.follower.begun
        num_unshown = num_generated - max(self.follower.num_given, begun.num_known)
        decode_ms = max(outcome.stats.decode_ms for outcome in outcomes)
        phases_ms = first.queue_ms, first.prefill_ms, decode_ms
        if self.follower.took_over:
            phases_ms = _last_of(phases_ms, self.total_ms)
        return Receipt(
            request_id=self.request_id,
            num_prompt_tokens=self.num_prompt_tokens,
            # Known tokens behind the prompt are reused as well.
            num_reused_tokens=min(first.num_reused, self.num_prompt_tokens),
            num_computed_tokens=sum(outcome.stats.num_computed for outcome in outcomes),
            num_generated_tokens=num_generated,
            queue_ms=phases_ms[0],
            prefill_ms=phases_ms[1],
            decode_ms=phases_ms[2],
            total_ms=self.total_ms,
            finish_reasons=reasons,
            drafted_tokens=_summed([outcome.stats.drafted for outcome in outcomes]),
            accepted_tokens=_summed([outcome.stats.accepted for outcome in outcomes]),
            tier=_tier(begun, outcomes),
            num_known_tokens=begun.num_known,
            num_unshown_tokens=max(0, num_unshown),
            cut_characters=self._cut_characters(),
            ended_by=tuple(each.ended_by for each in self.endings),
            confidence=self.endings[0].confidence if self.endings else None,
            ledger=self.ledger,
            tenant=self.follower.request.tenant,
            address=self.address,
        )

    def _of_another(self, reasons: tuple[FinishReason, ...], num_generated: int) -> Receipt:
        """Nothing was computed for this request, so all its time was waiting for another's answer."""
        return Receipt(
            request_id=self.request_id,
            num_prompt_tokens=self.num_prompt_tokens,
            num_reused_tokens=self.num_prompt_tokens,
            num_computed_tokens=0,
            num_generated_tokens=num_generated,
            queue_ms=self.total_ms,
            prefill_ms=0.0,
            decode_ms=0.0,
            total_ms=self.total_ms,
            finish_reasons=reasons,
            coalesced_with=self.follower.coalesced_with,
            tier=self.follower.begun.tier,
            num_known_tokens=self.follower.begun.num_known,
            cut_characters=self._cut_characters(),
            ended_by=tuple(each.ended_by for each in self.endings),
            confidence=self.endings[0].confidence if self.endings else None,
            ledger=self.ledger,
            tenant=self.follower.request.tenant,
            address=self.address,
        )

    def _cut_characters(self) -> dict[str, int]:
        return _summed([{cut.rule: cut.num_characters for cut in each.cuts} for each in self.endings])


def _tier(begun: Begun, outcomes: Sequence[Outcome]) -> Tier:
    """Where the answer came from, now that it has ended: from a guess that was right as a whole, and was of use."""
    source = None if begun.guess is None else begun.guess.right
    if source is not None and any(outcome.stats.accepted.get(source, 0) for outcome in outcomes):
        return source
    return begun.tier


def _last_of(phases_ms: tuple[float, float, float], total_ms: float) -> tuple[float, float, float]:
    """What of phases that follow each other falls into the last `total_ms` of them: who came later waited for that."""
    queue_ms, prefill_ms, decode_ms = phases_ms
    decode_ms = min(decode_ms, total_ms)
    prefill_ms = min(prefill_ms, total_ms - decode_ms)
    return min(queue_ms, total_ms - decode_ms - prefill_ms), prefill_ms, decode_ms


def _summed(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    if len(counts) == 1:
        return dict(counts[0])
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


class Receipts:
    """Keeps the latest `max_kept`; a request id that comes again replaces its predecessor.

    A trace holds a whole document, so it becomes a receipt as soon as its last numbers are there.
    """

    def __init__(self, max_kept: int) -> None:
        self._max_kept = max_kept
        self._kept: OrderedDict[str, Trace | Receipt] = OrderedDict()
        self._open: dict[str, Trace] = {}  # of these, what is still a trace

    def keep(self, trace: Trace) -> None:
        self._kept.pop(trace.request_id, None)
        self._kept[trace.request_id] = self._open[trace.request_id] = trace
        if len(self._kept) > self._max_kept:
            self._open.pop(self._kept.popitem(last=False)[0], None)
        for request_id, each in list(self._open.items()):
            if each.final:
                self._kept[request_id] = each.receipt()
                del self._open[request_id]

    async def final(self, request_id: str) -> Receipt | None:
        """As `find`, as soon as no number will change any more: within an engine step of the request's end."""
        trace = self._open.get(request_id)
        if trace is None:
            return self.find(request_id)
        answers = trace.follower.answers
        while not trace.final:
            await answers.news(len(answers.arrived(0)))
        return trace.receipt()

    def find(self, request_id: str) -> Receipt | None:
        kept = self._kept.get(request_id)
        return kept.receipt() if isinstance(kept, Trace) else kept
