"""One request from `CompletionRequest` to `Completion`: prompt, engine, text, receipt."""

import time
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from contextlib import aclosing
from dataclasses import fields

from halfline.engine.handle import EngineHandle
from halfline.engine.sequence import Progress, Work
from halfline.engine.speculation.repeats import Repeats
from halfline.errors import BadRequest, UnusableLogits
from halfline.kv.namespace import F16, namespace
from halfline.model.executor import CAUSAL
from halfline.model.spec import ModelSpec
from halfline.pipeline.answers import Begun
from halfline.pipeline.draft_texts import DraftTexts
from halfline.pipeline.following import Follower, Followers
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.postprocess.postprocessing import Postprocessing, postprocessing
from halfline.pipeline.prompt import Prompt, PromptBuilder
from halfline.pipeline.receipts import Receipts, Trace
from halfline.request import (
    Choice,
    ChoiceDelta,
    Completion,
    CompletionRequest,
    Receipt,
    SamplingParams,
    TokenLogprob,
)
from halfline.sampling.healing import HealingSampler
from halfline.sampling.reader import Piece
from halfline.sampling.sampler import Sampler, Scored
from halfline.text.detokenizer import Detokenizer
from halfline.text.spellings import Spellings
from halfline.text.tokenizer import Tokenizer


class CompletionPipeline:
    """Serves completions from one model; lives on the event loop."""

    def __init__(
        self,
        engine: EngineHandle,
        tokenizer: Tokenizer,
        spec: ModelSpec,
        options: PipelineOptions,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._vocab_size = spec.vocab_size
        self._model_name = spec.name
        self._clock = clock
        self._options = options
        self._prompts = PromptBuilder(tokenizer, options, spec.vocab_size, engine.max_sequence_tokens)
        self._draft_texts = DraftTexts(tokenizer)
        self._spellings = Spellings(tokenizer)
        self._receipts = Receipts(options.kept_receipts)
        self._followers = Followers()

    async def stream(self, request: CompletionRequest) -> AsyncGenerator[ChoiceDelta, None]:
        """The request's text as it comes, choices interleaved; each choice ends with one delta that has a
        finish_reason.

        An async generator. Closing it (`aclose`, or cancelling the task that iterates) cancels the work within
        one engine step. An echoed prompt is the first delta of its choice. When the engine breaks under a running
        request every open choice ends with "failed". One that is cancelled by `cancel`, or superseded by a newer
        request of its identity, ends with "cancelled" or "superseded" and what it has; one that was shed raises
        Overloaded, one on which the model overflowed UnusableLogits.
        Raises before the first delta: BadRequest and its kinds (PromptTooLong, UnencodableText), NotNow
        (Overloaded, shutting down), EngineFailed.
        """
        started_at = self._clock()
        self._check_bias(request)
        prompt = await self._prompts.build(request, crowded=self._engine.crowded)
        trims = postprocessing(request, self._options)
        prompt_ms = (self._clock() - started_at) * 1e3

        def begin() -> Begun:
            works = [self._work(request, prompt, trims, index, prompt_ms) for index in range(request.num_choices)]
            return Begun(self._engine.submit(works))

        follower = self._followers.follow(request, _question(request, prompt, trims), begin)
        endings: dict[int, Piece] = {}
        try:
            async with aclosing(self._deltas(request, prompt, follower, endings)) as deltas:
                async for delta in deltas:
                    yield delta
        finally:
            self._followers.left(follower)
            self._receipts.keep(
                Trace(
                    request.id,
                    len(prompt.token_ids),
                    request.num_choices,
                    {**prompt.ledger, "prompt_ms": prompt_ms},
                    follower,
                    (self._clock() - started_at) * 1e3,
                    [endings[index] for index in sorted(endings)],
                )
            )

    async def complete(self, request: CompletionRequest) -> Completion:
        """The whole answer at once. Raises as `stream` does before its first delta."""
        deltas: list[list[ChoiceDelta]] = [[] for _ in range(request.num_choices)]
        async for delta in self.stream(request):
            deltas[delta.index].append(delta)
        receipt = self._receipts.find(request.id)
        assert receipt is not None  # kept when the stream ended, just above
        return Completion(request.id, tuple(_joined(each) for each in deltas), receipt)

    def cancel(self, request_id: str, tenant: str) -> bool:
        """End a request of that tenant within one engine step; False when there is none, or it has ended."""
        return self._followers.cancel(request_id, tenant)

    def receipt(self, request_id: str) -> Receipt | None:
        """The receipt of a request that has ended, cancelled and failed ones too; None when it is unknown, still
        running, or more than `options.kept_receipts` ended since.
        """
        return self._receipts.find(request_id)

    def _check_bias(self, request: CompletionRequest) -> None:
        for token_id in request.params.logit_bias:
            if not 0 <= token_id < self._vocab_size:
                raise BadRequest(
                    f"`logit_bias` names token {token_id}, the vocabulary has {self._vocab_size}",
                    "logit_bias",
                )

    def _work(
        self, request: CompletionRequest, prompt: Prompt, trims: Postprocessing, index: int, spent_ms: float
    ) -> Work:
        """`spent_ms` of the time until the request's deadline are gone."""
        return Work(
            prompt_ids=prompt.token_ids,
            max_new_tokens=prompt.max_new_tokens,
            sampler=self._sampler(trims.params(request.params), prompt, index),
            reader=trims.reader(Detokenizer(self._tokenizer), prompt.forced_text),
            stop_token_ids=prompt.stop_token_ids,
            namespace=namespace(
                tenant=request.tenant, model=self._model_name, kv_format=F16, mask=CAUSAL, adapter=None
            ),
            prompt_logprobs=request.params.logprobs if request.echo else None,
            forced_ids=prompt.forced_ids,
            max_forced_tokens=len(prompt.forced_text.encode()),
            draft_sources=self._draft_sources(request, prompt),
            priority=request.priority,
            tenant=request.tenant,
            user=request.user,
            deadline_ms=None if request.deadline_ms is None else request.deadline_ms - spent_ms,
        )

    def _sampler(self, params: SamplingParams, prompt: Prompt, index: int) -> Sampler:
        if not prompt.forced_text:
            return Sampler(params, prompt.token_ids, stream=index)
        return HealingSampler(params, prompt.token_ids, index, self._spellings, prompt.forced_text)

    def _draft_sources(self, request: CompletionRequest, prompt: Prompt) -> tuple[Repeats, ...]:
        if not self._engine.speculates:
            return ()
        return self._draft_texts.around(request.tenant, prompt.before, prompt.behind)

    async def _deltas(
        self, request: CompletionRequest, prompt: Prompt, follower: Follower, endings: dict[int, Piece]
    ) -> AsyncGenerator[ChoiceDelta, None]:
        """`endings` gets the last piece of each choice that comes to its end."""
        with_logprobs = request.params.logprobs is not None
        num_echoed = len(prompt.text) if request.echo else 0
        unechoed: dict[int, list[Scored]] = {}  # by choice, the prompt's scores so far
        if request.echo and with_logprobs:
            unechoed = {index: [] for index in range(request.num_choices)}
        elif request.echo:
            for index in range(request.num_choices):
                yield ChoiceDelta(index, prompt.text, _at(prompt.token_ids, prompt.places))
        async for index, progress in follower.progress():
            if progress.outcome is not None and progress.outcome.finish_reason == "shed":
                raise self._engine.overloaded()
            if progress.outcome is not None and progress.outcome.failure is not None:
                raise UnusableLogits(progress.outcome.failure)
            if index in unechoed:
                unechoed[index] += progress.prompt_scores
                if len(unechoed[index]) == len(prompt.token_ids) - 1:
                    yield self._scored_echo(index, prompt, unechoed.pop(index))
            if progress.outcome is not None:
                endings[index] = progress.piece
            if progress.piece.text or progress.piece.tokens or progress.outcome is not None:
                yield self._delta(index, progress, num_echoed if with_logprobs else None)

    def _scored_echo(self, index: int, prompt: Prompt, scores: Sequence[Scored]) -> ChoiceDelta:
        """`scores` [prompt tokens - 1]: nothing predicts the first token."""
        all_scores = [Scored(prompt.token_ids[0]), *scores]
        detokenizer = Detokenizer(self._tokenizer, continues=prompt.continues)
        offset = 0
        logprobs: list[TokenLogprob] = []
        for place in prompt.places:
            logprobs.append(self._logprob(all_scores[place], offset))
            offset += len(detokenizer.push(prompt.token_ids[place]))
        return ChoiceDelta(index, prompt.text, _at(prompt.token_ids, prompt.places), tuple(logprobs))

    def _delta(self, index: int, progress: Progress, num_echoed: int | None) -> ChoiceDelta:
        """`num_echoed` characters come before what is generated; None: no logprobs are wanted."""
        piece, outcome = progress.piece, progress.outcome
        logprobs = None
        if num_echoed is not None:
            logprobs = tuple(
                self._logprob(token, num_echoed + start)
                for token, start in zip(piece.tokens, piece.starts, strict=True)
            )
        return ChoiceDelta(
            index,
            piece.text,
            tuple(token.token_id for token in piece.tokens),
            logprobs,
            None if outcome is None else outcome.finish_reason,
        )

    def _logprob(self, token: Scored, offset: int) -> TokenLogprob:
        text_of = self._tokenizer.token_text
        top = tuple((token_id, text_of(token_id), logprob) for token_id, logprob in token.top)
        return TokenLogprob(token.token_id, text_of(token.token_id), token.logprob, offset, top)


def _question(request: CompletionRequest, prompt: Prompt, trims: Postprocessing) -> Hashable | None:
    """What has to be the same for the answer to be the same; None: it is drawn anew for everybody who asks."""
    params = request.params
    if not params.greedy and params.seed is None:
        return None
    return (
        request.tenant,
        prompt.token_ids,
        prompt.forced_text,
        prompt.max_new_tokens,
        prompt.stop_token_ids,
        trims,
        tuple(getattr(params, each.name) for each in fields(params) if each.name != "logit_bias"),
        frozenset(params.logit_bias.items()),
        request.num_choices,
        request.echo,
        # Not of the answer, but of when it comes.
        request.priority,
        request.deadline_ms,
    )


def _at(token_ids: Sequence[int], places: range) -> tuple[int, ...]:
    return tuple(token_ids[places.start : places.stop])


def _joined(deltas: Sequence[ChoiceDelta]) -> Choice:
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
