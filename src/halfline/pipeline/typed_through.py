"""Begins an answer with the tokens that are known of it, and has only the rest computed (C2).

Known tokens go through the request's own reader, with its filters and its limit, as the engine would read them. Where
they do not reach the answer's end the engine goes on behind them: their KV is mostly still there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from halfline.document.suggestions import Suggestions, Walk
from halfline.engine.handle import EngineHandle, Generation
from halfline.engine.sequence import Outcome, Progress, SequenceStats, Work
from halfline.engine.speculation.repeats import Repeats
from halfline.pipeline.answers import Begun, ContinuedAnswer, KnownAnswer
from halfline.request import FinishReason
from halfline.sampling.reader import NOTHING, Piece
from halfline.sampling.sampler import Scored


@dataclass(frozen=True, slots=True)
class Greedy:
    """Work whose tokens can be known. `forced` has to come first. What is known is shared within the `namespace`;
    `drafts` finds the texts to guess from.
    """

    work: Work
    forced: bytes
    namespace: str
    drafts: Callable[[], tuple[Repeats, ...]]

    @property
    def state(self) -> tuple[str, tuple[int, ...], bytes]:
        """What decides which tokens come."""
        return self.namespace, self.work.prompt_ids, self.forced


class TypedThrough:
    """Lives on the event loop."""

    def __init__(self, engine: EngineHandle, suggestions: Suggestions) -> None:
        self._engine = engine
        self._suggestions = suggestions

    def begin(self, asked: Greedy) -> Begun:
        """Raises what `EngineHandle.submit` raises."""
        beginning = self._beginning(asked, ahead=False)
        if beginning.finish_reason is not None:
            outcome = Outcome(beginning.finish_reason, _stats(beginning, len(asked.work.prompt_ids)))
            progress = Progress(0, beginning.piece, outcome=outcome)
            return Begun(KnownAnswer(progress, outcome), "typed", outcome.stats.num_generated)
        rest = self._compute([beginning])
        if not beginning.tokens:
            return Begun(rest)
        num_known = beginning.num_new
        answer = ContinuedAnswer(Progress(0, beginning.piece), num_known, rest)
        return Begun(answer, "continued", num_known)

    def look_ahead(self, guesses: Sequence[Greedy], most: int | None = None) -> Generation | None:
        """Compute the first `most` guesses of which something is missing, as one batch; None: of none is.

        Raises what `EngineHandle.submit` raises.
        """
        different = {guess.state: guess for guess in reversed(guesses)}
        beginnings = [self._beginning(guess, ahead=True) for guess in reversed(different.values())]
        missing = [each for each in beginnings if each.finish_reason is None][:most]
        return self._compute(missing) if missing else None

    def _compute(self, beginnings: Sequence["_Beginning"]) -> Generation:
        def learn(position: int, progress: Progress) -> None:
            for token in progress.sampled:
                beginnings[position].walk.learn(token)

        return self._engine.submit([each.rest() for each in beginnings], learn)

    def _beginning(self, asked: Greedy, *, ahead: bool) -> "_Beginning":
        """Read what is known, as the engine would have read it when it came (engine/scheduler.py)."""
        work, reader = asked.work, asked.work.reader
        walk = self._suggestions.walk(asked.namespace, work.prompt_ids, asked.forced, ahead=ahead)
        piece, tokens = NOTHING, []
        while (token := walk.known()) is not None:
            tokens.append(token)
            work.sampler.follow(token.token_id)
            if token.token_id in work.stop_token_ids and not reader.forcing:
                return _Beginning(asked, walk, tokens, piece + reader.finish(), "stop")
            piece += reader.push(token)
            if reader.stopped:
                return _Beginning(asked, walk, tokens, piece, "stop")
            if len(tokens) - reader.num_forced == work.max_new_tokens:
                return _Beginning(asked, walk, tokens, piece + reader.finish(), "length")
        return _Beginning(asked, walk, tokens, piece, None)


@dataclass(frozen=True, slots=True)
class _Beginning:
    """What is known of an answer: all of it where there is a `finish_reason`."""

    asked: Greedy
    walk: Walk
    tokens: Sequence[Scored]
    piece: Piece
    finish_reason: FinishReason | None

    @property
    def num_new(self) -> int:
        """Tokens that are not only the forced text's."""
        return len(self.tokens) - self.asked.work.reader.num_forced

    def rest(self) -> Work:
        """What is left to be computed behind them."""
        work = self.asked.work
        token_ids = tuple(token.token_id for token in self.tokens)
        num_known = len(token_ids)
        return replace(
            work,
            prompt_ids=work.prompt_ids + token_ids,
            max_new_tokens=work.max_new_tokens - self.num_new,
            forced_ids=work.forced_ids[num_known:] if work.forced_ids[:num_known] == token_ids else (),
            max_forced_tokens=len(self.walk.forced),
            draft_sources=self.asked.drafts(),
        )


def _stats(beginning: _Beginning, num_prompt: int) -> SequenceStats:
    """Of an answer for which nothing was computed."""
    return SequenceStats(
        num_reused=num_prompt,
        num_computed=0,
        num_generated=beginning.num_new,
        queue_ms=0.0,
        prefill_ms=0.0,
        decode_ms=0.0,
    )
