"""Who follows which generation, and who leaves it early.

Requests that ask the same of the same tenant, while one of them is being computed, share its generation: each is told
everything from the first token on, and leaves without hurting the others. The generation is called off when the last
one leaves. A newer request of the same identity makes the older one leave (C4).

Lives on the event loop. Knows neither text nor how a sequence is run.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping

from halfline.engine.handle import Generation
from halfline.engine.sequence import Outcome, Progress, SequenceStats
from halfline.request import CompletionRequest, FinishReason, Identity


class Followers:
    """All requests that have been submitted and not ended."""

    def __init__(self) -> None:
        self._by_id: dict[str, Follower] = {}
        self._by_identity: dict[Identity, Follower] = {}
        self._shared: dict[Hashable, _Shared] = {}

    def follow(
        self, request: CompletionRequest, question: Hashable | None, submit: Callable[[], Generation]
    ) -> "Follower":
        """Follow the generation in flight that answers the same `question`, else the one `submit` starts.

        `question` None: the answer is nobody else's. Raises what `submit` raises; then nobody was superseded.
        """
        shared = None if question is None else self._shared.get(question)
        if shared is None or shared.generation.ended:
            shared = _Shared(request, submit())
            if question is not None:
                self._shared[question] = shared
        follower = Follower(request, question, shared)
        shared.followers.add(follower)
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
        if follower is None or follower.request.tenant != tenant or follower.generation.ended:
            return False
        self.end(follower, "cancelled")
        return True

    def end(self, follower: "Follower", reason: FinishReason) -> None:
        """Have it end for that reason, within one engine step. Idempotent."""
        if follower.leaving or follower.generation.ended:
            return
        follower.leaving = True
        if len(follower.shared.followers) > 1:
            follower.shared.followers.discard(follower)
            follower.leave_alone(reason)
        else:
            self._forget_shared(follower)
            follower.generation.cancel(reason)

    def left(self, follower: "Follower") -> None:
        """Nobody reads it any more, whether it ended or not."""
        self.end(follower, "cancelled")
        follower.shared.followers.discard(follower)
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
    def __init__(self, leader: CompletionRequest, generation: Generation) -> None:
        self.leader = leader
        self.generation = generation
        self.followers: set[Follower] = set()


class Follower:
    """One request's view of a generation. Made, ended and left by `Followers`."""

    def __init__(self, request: CompletionRequest, question: Hashable | None, shared: _Shared) -> None:
        self.request = request
        self.question = question
        self.shared = shared
        self.leaving = False
        self._own_outcomes: dict[int, Outcome] | None = None  # of one that left while the others went on
        self._num_given: Counter[int] = Counter()  # tokens by position

    @property
    def generation(self) -> Generation:
        return self.shared.generation

    @property
    def coalesced_with(self) -> str | None:
        """The request whose generation it is; None: its own."""
        leader = self.shared.leader
        return None if leader is self.request else leader.id

    @property
    def outcomes(self) -> Mapping[int, Outcome]:
        """By position, of the sequences that have ended as far as this request goes."""
        return self.generation.outcomes if self._own_outcomes is None else self._own_outcomes

    async def progress(self) -> AsyncGenerator[tuple[int, Progress], None]:
        """(position, progress), the last one of each position with its outcome."""
        num_known = 0
        ended: set[int] = set()
        while len(ended) < self.request.num_choices:
            if self._own_outcomes is not None:
                for position, outcome in self._own_outcomes.items():
                    if position not in ended:
                        yield position, Progress(position, outcome=outcome)
                return
            for position, each in await self.generation.news(num_known):
                num_known += 1
                self._num_given[position] += len(each.piece.tokens)
                if each.outcome is not None:
                    ended.add(position)
                yield position, each
                if self._own_outcomes is not None:
                    break

    def leave_alone(self, reason: FinishReason) -> None:
        """End for this request only."""
        self._own_outcomes = {
            position: Outcome(reason, _stats(self._num_given[position]))
            for position in range(self.request.num_choices)
        } | self.generation.outcomes
        self.generation.wake()


def _stats(num_generated: int) -> SequenceStats:
    """Of one for whom nothing was computed."""
    return SequenceStats(
        num_reused=0, num_computed=0, num_generated=num_generated, queue_ms=0.0, prefill_ms=0.0, decode_ms=0.0
    )
