"""What comes of a request, whether an engine computes it, part of it, or nothing.

The engine's `Generation` is one such answer. The others begin with what was known before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from halfline.engine.sequence import Outcome, Progress
from halfline.request import FinishReason, Tier


class Answers(Protocol):
    """One answer per position, told as (position, progress); `outcomes` has those that have ended."""

    @property
    def outcomes(self) -> Mapping[int, Outcome]: ...

    @property
    def ended(self) -> bool: ...

    def cancel(self, reason: FinishReason = "cancelled") -> None:
        """Have what has not ended end for that reason, soon."""

    def wake(self) -> None:
        """Let everybody who awaits `news` look again."""

    def arrived(self, num_heard: int) -> list[tuple[int, Progress]]:
        """What has come after the first `num_heard`."""

    async def news(self, num_heard: int) -> None:
        """Wait until more than the first `num_heard` have come, or somebody calls `wake`."""


class Guess(Protocol):
    """What a tier said that the answer would be."""

    @property
    def right(self) -> Tier | None:
        """Who guessed it, if the answer is what was guessed; None as long as it has not ended."""


@dataclass(frozen=True, slots=True)
class Begun:
    """Answers under way. `num_known` of their tokens nobody has to compute; `guess` None: nobody guessed any."""

    answers: Answers
    tier: Tier = "miss"
    num_known: int = 0
    guess: Guess | None = None


class KnownAnswers:
    """All of them were known. One progress for each position, with its outcome."""

    ended = True

    def __init__(self, progress: Sequence[Progress]) -> None:
        self.outcomes = {
            position: each.outcome for position, each in enumerate(progress) if each.outcome is not None
        }
        self._progress = list(enumerate(progress))

    def cancel(self, reason: FinishReason = "cancelled") -> None:
        """There is nothing left to end."""

    def wake(self) -> None:
        """Nobody waits."""

    def arrived(self, num_heard: int) -> list[tuple[int, Progress]]:
        return self._progress[num_heard:]

    async def news(self, num_heard: int) -> None:
        """There never is more."""


class ContinuedAnswer:
    """Its beginning was known, `rest` computes what is missing."""

    def __init__(self, beginning: Progress, num_known: int, rest: Answers) -> None:
        self._num_known = num_known
        self._beginning = beginning
        self._rest = rest

    @property
    def outcomes(self) -> Mapping[int, Outcome]:
        return {position: self._whole(outcome) for position, outcome in self._rest.outcomes.items()}

    @property
    def ended(self) -> bool:
        return self._rest.ended

    def cancel(self, reason: FinishReason = "cancelled") -> None:
        self._rest.cancel(reason)

    def wake(self) -> None:
        self._rest.wake()

    def arrived(self, num_heard: int) -> list[tuple[int, Progress]]:
        if num_heard == 0:
            return [(0, self._beginning), *self._rest.arrived(0)]
        return self._rest.arrived(num_heard - 1)

    async def news(self, num_heard: int) -> None:
        if num_heard:
            await self._rest.news(num_heard - 1)

    def _whole(self, outcome: Outcome) -> Outcome:
        num_generated = outcome.stats.num_generated + self._num_known
        return replace(outcome, stats=replace(outcome.stats, num_generated=num_generated))
