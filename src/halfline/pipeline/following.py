"""Who follows which answer, and who leaves it early.

Requests that ask the same of the same tenant, while one of them is being computed, share its answer: each is told
everything from the first token on, and leaves without hurting the others. It is called off when the last one leaves.
What was computed was computed for the leader: one that leaves early makes who has followed longest the leader. A newer
request of the same identity makes the older one leave (C4).

Lives on the event loop. Knows neither text nor how a sequence is run.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
from dataclasses import dataclass

from halfline.engine.sequence import Outcome, Progress, SequenceStats
from halfline.pipeline.answers import Answers, Begun
from halfline.request import CompletionRequest, FinishReason, Identity


class Followers:
    """All requests that have been submitted and not ended."""

    def __init__(self) -> None:
        self._by_id: dict[str, Follower] = {}
        self._by_identity: dict[Identity, Follower] = {}
        self._shared: dict[Hashable, _Shared] = {}

    @property
    def num_waiting(self) -> int:
        """Requests whose answers have not ended."""
        return sum(not follower.answers.ended for follower in self._by_id.values())

    def follow(
        self, request: CompletionRequest, question: Hashable | None, begin: Callable[[], Begun]
    ) -> "Follower":
        """Follow the answers in flight to the same `question`, else those that `begin` begins.

        `question` None: the answer is nobody else's. Raises what `begin` raises; then nobody was superseded.
        """
        shared = None if question is None else self._shared.get(question)
        if shared is None or shared.answers.ended:
            shared = _Shared(request, begin())
            if question is not None:
                self._shared[question] = shared
        follower = Follower(request, question, shared)
        shared.followers[follower] = None
        self._by_id[request.id] = follower
        if request.identity is not None:
            older = self._by_identity.get(request.identity)
            if older is not None:
                self.end(older, "superseded")
            self._by_identity[request.identity] = follower
        return follower

    def cancel(self, request_id: str, tenant: str) -> bool:
        """End a request of that tenant; False when there is none by that id, or it has ended."""
        follower = self._by_id.get(request_id)
        if follower is None or follower.request.tenant != tenant or follower.answers.ended:
            return False
        self.end(follower, "cancelled")
        return True

    def end(self, follower: "Follower", reason: FinishReason) -> None:
        """Have it end for that reason, within one engine step; at once where others go on. Idempotent."""
        if follower.leaving or follower.answers.ended:
            return
        follower.leaving = True
        if len(follower.shared.followers) > 1:
            follower.shared.leave(follower)
            follower.leave_alone(reason)
        else:
            self._forget_shared(follower)
            follower.answers.cancel(reason)

    def leave(self, follower: "Follower", reason: FinishReason) -> bool:
        """Have it end for that reason at once, with what it was told. Whether nobody follows its answers any more:
        they go on until they are called off.
        """
        if follower.leaving or follower.answers.ended:
            return False
        follower.leaving = True
        follower.shared.leave(follower)
        if follower.shared.followers:
            follower.leave_alone(reason)
            return False
        follower.leave_last(reason)
        self._forget_shared(follower)
        return True

    def left(self, follower: "Follower") -> None:
        """Nobody reads it any more, whether it ended or not."""
        self.end(follower, "cancelled")
        follower.shared.followers.pop(follower, None)
        if not follower.shared.followers:
            self._forget_shared(follower)
        request = follower.request
        if self._by_id.get(request.id) is follower:
            del self._by_id[request.id]
        if request.identity is not None and self._by_identity.get(request.identity) is follower:
            del self._by_identity[request.identity]

    def _forget_shared(self, follower: "Follower") -> None:
        """Whoever asks the same from now on starts anew."""
        if follower.question is not None and self._shared.get(follower.question) is follower.shared:
            del self._shared[follower.question]


class _Shared:
    """Begun for `first`, now computed for `leader`; `followers` in the order in which they came."""

    def __init__(self, first: CompletionRequest, begun: Begun) -> None:
        self.first = self.leader = first
        self.begun = begun
        self.answers = begun.answers
        self.followers: dict[Follower, None] = {}

    def leave(self, follower: "Follower") -> None:
        """Go on for the others, if there are any."""
        self.followers.pop(follower, None)
        if self.leader is follower.request and self.followers:
            self.leader = next(iter(self.followers)).request


class Follower:
    """One request's view of its answers. Made, ended and left by `Followers`."""

    def __init__(self, request: CompletionRequest, question: Hashable | None, shared: _Shared) -> None:
        self.request = request
        self.question = question
        self.shared = shared
        self.leaving = False
        self._left: _Left | None = None  # of one that did not wait for its answers' end
        self._own_outcomes: dict[int, Outcome] = {}
        self._num_given: Counter[int] = Counter()  # tokens by position

    @property
    def answers(self) -> Answers:
        return self.shared.answers

    @property
    def begun(self) -> Begun:
        return self.shared.begun

    @property
    def num_given(self) -> int:
        """Tokens that it was told and that may be shown."""
        return self._num_given.total()

    @property
    def coalesced_with(self) -> str | None:
        """The request whose answers these are; None: its own."""
        leader = self.shared.leader
        return None if leader is self.request else leader.id

    @property
    def took_over(self) -> bool:
        """Whether the answers are its own, but were begun for another, before it came."""
        return self.coalesced_with is None and self.shared.first is not self.request

    @property
    def outcomes(self) -> Mapping[int, Outcome]:
        """By position, of the answers that have ended as far as this request goes: nothing in them will change."""
        left = self._left
        if left is None:
            return self.answers.outcomes
        if left.others_go_on:
            ended = {
                position: self._told(position, left.reason) for position in range(self.request.num_choices)
            }
        else:
            ended = {
                position: Outcome(left.reason, outcome.stats)
                for position, outcome in self.answers.outcomes.items()
            }
        return ended | self._own_outcomes

    def outcome(self, position: int) -> Outcome:
        """Until the engine has confirmed an early end, at most one step later, only what was told is known of it."""
        reason = "cancelled" if self._left is None else self._left.reason
        return self.outcomes.get(position) or self._told(position, reason)

    async def progress(self) -> AsyncGenerator[tuple[int, Progress], None]:
        """(position, progress), the last one of each position with its outcome."""
        num_heard = 0
        while len(self._own_outcomes) < self.request.num_choices:
            arrived = self.answers.arrived(num_heard)
            if self._left is not None:
                arrived = arrived[: max(0, self._left.num_arrived - num_heard)]
            for position, each in arrived:
                num_heard += 1
                self._num_given[position] += len(each.piece.tokens)
                if each.outcome is not None:
                    self._own_outcomes[position] = self.answers.outcomes[position]
                yield position, each
            if not arrived and self._left is None:
                await self.answers.news(num_heard)
            elif not arrived:
                break
        for position in range(self.request.num_choices):
            if position not in self._own_outcomes:
                yield position, Progress(position, outcome=self.outcome(position))

    def leave_alone(self, reason: FinishReason) -> None:
        """End for this request only, behind what has arrived: nothing was computed for it."""
        self._left = _Left(reason, len(self.answers.arrived(0)), others_go_on=True)
        self.answers.wake()

    def leave_last(self, reason: FinishReason) -> None:
        """End behind what has arrived; whatever is still computed was computed for it."""
        self._left = _Left(reason, len(self.answers.arrived(0)), others_go_on=False)
        self.answers.wake()

    def _told(self, position: int, reason: FinishReason) -> Outcome:
        return Outcome(reason, _stats(self._num_given[position]))


@dataclass(frozen=True, slots=True)
class _Left:
    reason: FinishReason
    num_arrived: int
    others_go_on: bool


def _stats(num_generated: int) -> SequenceStats:
    """Of one for whom nothing was computed."""
    return SequenceStats(
        num_reused=0, num_computed=0, num_generated=num_generated, queue_ms=0.0, prefill_ms=0.0, decode_ms=0.0
    )
