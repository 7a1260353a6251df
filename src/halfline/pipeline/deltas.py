"""What a client is told of its answers: text, tokens and scores, an echoed prompt before them."""

from collections.abc import AsyncGenerator, Sequence

from halfline.engine.handle import EngineHandle
from halfline.engine.sequence import Progress
from halfline.errors import UnusableLogits
from halfline.pipeline.deadline import WholeLines
from halfline.pipeline.following import Follower
from halfline.pipeline.prompt import Prompt
from halfline.request import Choice, ChoiceDelta, CompletionRequest, Tier, TokenLogprob
from halfline.sampling.reader import Piece
from halfline.sampling.sampler import Scored
from halfline.text.detokenizer import Detokenizer
from halfline.text.tokenizer import Tokenizer


class Deltas:
    """Writes the deltas of one request. `endings` has the last piece of each choice that came to its end."""

    def __init__(
        self,
        request: CompletionRequest,
        prompt: Prompt,
        follower: Follower,
        engine: EngineHandle,
        tokenizer: Tokenizer,
        *,
        whole_lines: bool,
    ) -> None:
        """`whole_lines`: an answer whose time is up ends with its last whole line, if it has one."""
        self._request = request
        self._prompt = prompt
        self._follower = follower
        self._engine = engine
        self._tokenizer = tokenizer
        self._lines = {index: WholeLines() for index in range(request.num_choices if whole_lines else 0)}
        self._with_logprobs = request.params.logprobs is not None
        self._num_echoed = len(prompt.text) if request.echo else 0
        self.endings: dict[int, Piece] = {}

    async def __aiter__(self) -> AsyncGenerator[ChoiceDelta, None]:
        """Raises Overloaded for idle work that was shed, UnusableLogits where the model overflowed."""
        request, prompt = self._request, self._prompt
        unechoed: dict[int, list[Scored]] = {}  # by choice, the prompt's scores so far
        if request.echo and self._with_logprobs:
            unechoed = {index: [] for index in range(request.num_choices)}
        elif request.echo:
            for index in range(request.num_choices):
                yield ChoiceDelta(index, prompt.text, _at(prompt.token_ids, prompt.places))
        async for index, progress in self._follower.progress():
            self._check(progress)
            if index in unechoed:
                unechoed[index] += progress.prompt_scores
                if len(unechoed[index]) == len(prompt.token_ids) - 1:
                    yield self._scored_echo(index, unechoed.pop(index))
            piece = self._in_lines(index, progress)
            if progress.outcome is not None:
                self.endings[index] = piece
            if piece.text or piece.tokens or progress.outcome is not None:
                yield self._delta(index, piece, progress)

    def _check(self, progress: Progress) -> None:
        if progress.outcome is not None and progress.outcome.finish_reason == "shed":
            raise self._engine.overloaded()
        if progress.outcome is not None and progress.outcome.failure is not None:
            raise UnusableLogits(progress.outcome.failure)

    def _in_lines(self, index: int, progress: Progress) -> Piece:
        lines = self._lines.get(index)
        if lines is None:
            return progress.piece
        piece = lines.push(progress.piece)
        if progress.outcome is not None:
            piece += lines.finish(late=progress.outcome.finish_reason == "deadline")
        return piece

    def _scored_echo(self, index: int, scores: Sequence[Scored]) -> ChoiceDelta:
        """`scores` [prompt tokens - 1]: nothing predicts the first token."""
        prompt = self._prompt
        all_scores = [Scored(prompt.token_ids[0]), *scores]
        detokenizer = Detokenizer(self._tokenizer, continues=prompt.continues)
        offset = 0
        logprobs: list[TokenLogprob] = []
        for place in prompt.places:
            logprobs.append(self._logprob(all_scores[place], offset))
            offset += len(detokenizer.push(prompt.token_ids[place]))
        return ChoiceDelta(index, prompt.text, _at(prompt.token_ids, prompt.places), tuple(logprobs))

    def _delta(self, index: int, piece: Piece, progress: Progress) -> ChoiceDelta:
        logprobs = None
        if self._with_logprobs:
            logprobs = tuple(
                self._logprob(token, self._num_echoed + start)
                for token, start in zip(piece.tokens, piece.starts, strict=True)
            )
        return ChoiceDelta(
            index,
            piece.text,
            tuple(token.token_id for token in piece.tokens),
            logprobs,
            None if progress.outcome is None else progress.outcome.finish_reason,
            self._tier(progress),
        )

    def _tier(self, progress: Progress) -> Tier:
        """A proposal counts from the moment that the model agreed with some of it."""
        if progress.agreed == "syntax" or progress.agreed == "semantic":
            return progress.agreed
        return self._follower.begun.tier

    def _logprob(self, token: Scored, offset: int) -> TokenLogprob:
        text_of = self._tokenizer.token_text
        top = tuple((token_id, text_of(token_id), logprob) for token_id, logprob in token.top)
        return TokenLogprob(token.token_id, text_of(token.token_id), token.logprob, offset, top)


def joined(deltas: Sequence[ChoiceDelta]) -> Choice:
    """One choice from its deltas; the last carries the finish reason."""
    reason = deltas[-1].finish_reason
    assert reason is not None
    scored = [delta.logprobs for delta in deltas if delta.logprobs is not None]
    return Choice(
        index=deltas[0].index,
        text="".join(delta.text for delta in deltas),
        token_ids=tuple(token_id for delta in deltas for token_id in delta.token_ids),
        finish_reason=reason,
        logprobs=tuple(each for logprobs in scored for each in logprobs) if scored else None,
    )


def _at(token_ids: Sequence[int], places: range) -> tuple[int, ...]:
    return tuple(token_ids[places.start : places.stop])
