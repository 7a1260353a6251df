"""Begins an answer with the tokens that are known of it, and has only the rest computed (C2).

Known tokens go through the request's own reader, with its filters and its limit, as the engine would read them. Where
they do not reach the answer's end the engine goes on behind them: their KV is mostly still there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from halfline.document.suggestions import Suggestions, Walk
from halfline.engine.handle import EngineHandle, Generation
from halfline.engine.sequence import Progress, Work
from halfline.engine.speculation.draft import Proposal
from halfline.engine.speculation.repeats import Repeats
from halfline.pipeline.answers import Begun, ContinuedAnswer, KnownAnswers
from halfline.pipeline.known_tokens import Known, known_outcome, read_known
from halfline.sampling.reader import NOTHING

Listen = Callable[[int, Progress], None]
"""Hears each position's progress the moment it arrives, whoever else follows."""


def nobody(position: int, progress: Progress) -> None:
    """Does not listen."""


def _no_proposal() -> Proposal | None:
    return None


@dataclass(frozen=True, slots=True)
class Greedy:
    """Work whose tokens can be known; `again` makes the same anew. `forced` has to come first. What is known is shared
    within the `namespace`; `drafts` finds the texts to guess from, `propose` a guess at all of an answer of which
    nothing is known.
    """

    work: Work
    again: Callable[[], Work]
    forced: bytes
    namespace: str
    drafts: Callable[[], tuple[Repeats, ...]]
    propose: Callable[[], Proposal | None] = _no_proposal

    @property
    def state(self) -> tuple[str, tuple[int, ...], bytes]:
        """What decides which tokens come."""
        return self.namespace, self.work.prompt_ids, self.forced


class TypedThrough:
    """Lives on the event loop."""

    def __init__(self, engine: EngineHandle, suggestions: Suggestions) -> None:
        self._engine = engine
        self._suggestions = suggestions

    def begin(self, asked: Greedy, listen: Listen = nobody) -> Begun:
        """`listen` hears all tokens of an answer of which any has to be computed. Raises what `EngineHandle.submit`
        raises.
        """
        return self._begin(self._beginning(asked, ahead=False), listen)

    def begin_anew(self, asked: Greedy, listen: Listen = nobody) -> Begun:
        """As if nothing were known; what comes is remembered."""
        walk = self._suggestions.walk(asked.namespace, asked.work.prompt_ids, asked.forced)
        return self._begin(_Beginning(asked, walk, Known((), NOTHING, None)), listen)

    def look_ahead(self, guesses: Sequence[Greedy], most: int | None = None) -> Generation | None:
        """Compute the first `most` guesses of which something is missing, as one batch; None: of none is.

        Raises what `EngineHandle.submit` raises.
        """
        different = {guess.state: guess for guess in reversed(guesses)}
        beginnings = [self._beginning(guess, ahead=True) for guess in reversed(different.values())]
        missing = [each for each in beginnings if each.known.finish_reason is None][:most]
        return self._compute(missing, nobody) if missing else None

    def _begin(self, beginning: "_Beginning", listen: Listen) -> Begun:
        known = beginning.known
        if known.finish_reason is not None:
            num_prompt = len(beginning.asked.work.prompt_ids)
            outcome = known_outcome(known.finish_reason, num_prompt, beginning.num_new)
            return Begun(
                KnownAnswers([Progress(0, known.piece, outcome=outcome)]), "typed", beginning.num_new
            )
        listen(0, Progress(0, sampled=tuple(known.tokens)))
        num_known = beginning.num_new  # from here on the reader reads what is computed
        rest = self._compute([beginning], listen)
        if not known.tokens:
            return Begun(rest)
        return Begun(ContinuedAnswer(Progress(0, known.piece), num_known, rest), "continued", num_known)

    def _compute(self, beginnings: Sequence["_Beginning"], listen: Listen) -> Generation:
        def learn(position: int, progress: Progress) -> None:
            for token in progress.sampled:
                beginnings[position].walk.learn(token)
            listen(position, progress)

        return self._engine.submit([each.rest() for each in beginnings], learn)

    def _beginning(self, asked: Greedy, *, ahead: bool) -> "_Beginning":
        walk = self._suggestions.walk(asked.namespace, asked.work.prompt_ids, asked.forced, ahead=ahead)
        return _Beginning(asked, walk, read_known(asked.work, iter(walk.known, None), asked.again))


@dataclass(frozen=True, slots=True)
class _Beginning:
    """What is known of an answer."""

    asked: Greedy
    walk: Walk
    known: Known

    @property
    def num_new(self) -> int:
        """Tokens that are not only the forced text's."""
        return len(self.known.tokens) - self.asked.work.reader.num_forced

    def rest(self) -> Work:
        """What is left to be computed behind them."""
        work = self.asked.work
        token_ids = tuple(token.token_id for token in self.known.tokens)
        num_known = len(token_ids)
        return replace(
            work,
            prompt_ids=work.prompt_ids + token_ids,
            max_new_tokens=work.max_new_tokens - self.num_new,
            forced_ids=work.forced_ids[num_known:] if work.forced_ids[:num_known] == token_ids else (),
            max_forced_tokens=len(self.walk.forced),
            draft_sources=self.asked.drafts(),
            proposal=None if token_ids else self.asked.propose(),
        )
