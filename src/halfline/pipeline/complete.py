"""One request from `CompletionRequest` to `Completion`: prompt, engine, text, receipt."""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from halfline.cache.exact import ExactAnswers
from halfline.cache.fragments import Fragments
from halfline.cache.guessing import GuessingTier
from halfline.context.chunks.chunk_tokens import ChunkTokens
from halfline.context.surroundings import Surroundings
from halfline.document.suggestions import Suggestions
from halfline.engine.handle import EngineHandle
from halfline.engine.speculation.draft import Proposal
from halfline.errors import BadRequest
from halfline.model.spec import ModelSpec
from halfline.pipeline.answers import Begun
from halfline.pipeline.deadline import Alarm, SetAlarm, event_loop_alarm
from halfline.pipeline.deltas import Deltas, joined
from halfline.pipeline.following import Follower, Followers
from halfline.pipeline.foresight import PipelineForesight, idle
from halfline.pipeline.known_answers import Recording, known_answers
from halfline.pipeline.late_work import LateWork, cursor_of
from halfline.pipeline.listening import Listeners
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.postprocess.postprocessing import Postprocessing, postprocessing
from halfline.pipeline.prompt import Prompt, PromptBuilder
from halfline.pipeline.proposals import Proposals, Proposing
from halfline.pipeline.question import question, question_digest
from halfline.pipeline.receipts import Receipts, Trace
from halfline.pipeline.suffix_judge import SuffixJudge
from halfline.pipeline.typed_through import TypedThrough
from halfline.pipeline.works import Works, is_greedy, is_remembered
from halfline.request import Choice, ChoiceDelta, Completion, CompletionRequest, Document, Receipt
from halfline.text.infill import InfillOrder
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
        set_alarm: SetAlarm = event_loop_alarm,
        infill_order: InfillOrder | None = None,
        exact: ExactAnswers | None = None,
        surroundings: Surroundings | None = None,
        guessing: Sequence[GuessingTier] = (),
        chunks: ChunkTokens | None = None,
        fragments: Fragments | None = None,
    ) -> None:
        """`chunks` None: tokens of other files' text are remembered by this pipeline alone. `exact` None: no answer is
        kept for whoever asks the same again. `surroundings` None: of other files there is what clients send, as they
        send it. `guessing` tiers propose answers. `fragments` None: nobody can ask for an answer by its address.
        """
        spellings = Spellings(tokenizer)
        self._engine = engine
        self._tokenizer = tokenizer
        self._vocab_size = spec.vocab_size
        self._clock = clock
        self._set_alarm = set_alarm
        self._options = options
        self._prompts = PromptBuilder(
            tokenizer,
            options,
            spec.vocab_size,
            engine.max_sequence_tokens,
            infill_order,
            surroundings,
            chunks,
        )
        self._works = Works(engine, tokenizer, spellings, spec.name)
        self.judge = SuffixJudge(engine, self._prompts, tokenizer, self._works)
        self.suggestions = Suggestions(spellings.of)
        self._typed_through = TypedThrough(engine, self.suggestions)
        self._receipts = Receipts(options.kept_receipts)
        self._followers = Followers()
        self._late_work = LateWork()
        self._exact = exact
        self._fragments = fragments
        self.proposals = Proposals(guessing if engine.speculates else (), tokenizer, clock)
        self.foresight = PipelineForesight(
            engine,
            self._followers,
            self._prompts,
            self._works,
            self.suggestions,
            self._typed_through,
            tokenizer,
            spellings,
            options,
        )

    def stream(self, request: CompletionRequest) -> AsyncGenerator[ChoiceDelta, None]:
        """The request's text as it comes, choices interleaved; each choice ends with one delta that has a
        finish_reason.

        An async generator. Closing it (`aclose`, or cancelling the task that iterates) cancels the work within
        one engine step. An echoed prompt is the first delta of its choice. When the engine breaks under a running
        request every open choice ends with "failed". One that is cancelled by `cancel`, superseded by a newer
        request of its identity, or whose deadline has come, ends with that and what it has; one that was shed raises
        Overloaded, one on which the model overflowed UnusableLogits.
        Raises before the first delta: BadRequest and its kinds (PromptTooLong, UnencodableText), NotNow
        (Overloaded, shutting down), EngineFailed.
        """
        return self._answer(request, whole=False)

    async def complete(self, request: CompletionRequest) -> Completion:
        """The whole answer at once. Raises as `stream` does before its first delta.

        An editor's answer that is cut short by its deadline ends with a whole line, if it has one by then.
        """
        choices = _choices([delta async for delta in self._answer(request, whole=True)])
        receipt = self._receipts.find(request.id)
        assert receipt is not None  # kept when the stream ended, just above
        return Completion(request.id, choices, receipt)

    def cancel(self, request_id: str, tenant: str) -> bool:
        """End a request of that tenant within one engine step; False when there is none, or it has ended."""
        return self._followers.cancel(request_id, tenant)

    def receipt(self, request_id: str) -> Receipt | None:
        """The receipt of a request that has ended, cancelled and failed ones too; None when it is unknown, still
        running, or more than `options.kept_receipts` ended since.
        """
        return self._receipts.find(request_id)

    async def final_receipt(self, request_id: str) -> Receipt | None:
        """The same of one that has ended, with its last numbers, which may come an engine step later."""
        return await self._receipts.final(request_id)

    async def _answer(self, request: CompletionRequest, *, whole: bool) -> AsyncGenerator[ChoiceDelta, None]:
        """`whole`: its reader waits for the end of it."""
        started_at = self._clock()
        self._check_bias(request)
        prompt = await self._prompts.build(request, crowded=self._engine.crowded)
        trims = postprocessing(request, self._options)
        address = await self._address(request, prompt, trims)
        prompt_ms = (self._clock() - started_at) * 1e3
        wanted_ms = self._options.deadline_ms if request.deadline_ms is None else request.deadline_ms
        left_ms = None if wanted_ms is None else wanted_ms - prompt_ms
        self._late_work.end(cursor_of(request))
        follower = self._followers.follow(
            request,
            question(request, prompt, trims),
            lambda: self._begin(request, prompt, trims, left_ms, address),
        )
        alarm = self._alarm(follower, prompt, trims, left_ms)
        deltas = Deltas(
            request,
            prompt,
            follower,
            self._engine,
            self._tokenizer,
            whole_lines=whole and isinstance(request.prompt, Document) and left_ms is not None,
        )
        told: list[ChoiceDelta] = []
        kept_at: str | None = None
        try:
            async with aclosing(aiter(deltas)) as each:
                async for delta in each:
                    told.append(delta)
                    yield delta
            if whole and self._fragments is not None and address is not None:
                kept_at = self._fragments.put(request.tenant, address, _choices(told))
        finally:
            if alarm is not None:
                alarm.cancel()
            self._followers.left(follower)
            self.foresight.answered(request, prompt)
            self._receipts.keep(
                Trace(
                    request.id,
                    len(prompt.token_ids),
                    request.num_choices,
                    {**prompt.ledger, "prompt_ms": prompt_ms},
                    follower,
                    (self._clock() - started_at) * 1e3,
                    [deltas.endings[index] for index in sorted(deltas.endings)],
                    kept_at,
                )
            )

    def _check_bias(self, request: CompletionRequest) -> None:
        for token_id in request.params.logit_bias:
            if not 0 <= token_id < self._vocab_size:
                raise BadRequest(
                    f"`logit_bias` names token {token_id}, the vocabulary has {self._vocab_size}",
                    "logit_bias",
                )

    async def _address(
        self, request: CompletionRequest, prompt: Prompt, trims: Postprocessing
    ) -> bytes | None:
        """Where an answer to exactly this is kept; None: nowhere. One that is not in memory comes into it.

        A keystroke does not wait for that: the next one would overtake it, and is nearly as fast.
        """
        digest = None if self._exact is None else question_digest(request, prompt, trims)
        if self._exact is None or digest is None:
            return None
        address = self._exact.address(digest)
        if request.caching == "use" and not self._exact.holds(address) and self._exact.may_fetch(address):
            if request.identity is None:
                await self._exact.fetch(address)
            else:
                self._exact.want(address)
        return address

    def _begin(
        self,
        request: CompletionRequest,
        prompt: Prompt,
        trims: Postprocessing,
        left_ms: float | None,
        address: bytes | None,
    ) -> Begun:
        listeners = Listeners()
        if self._exact is not None and address is not None:
            known = self._known(self._exact, address, request, prompt, trims)
            if known is not None:
                return known
            listeners.add(Recording(self._exact, address, request.num_choices))

        guess: Proposing | None = None

        def propose() -> Proposal | None:
            nonlocal guess
            guess = self.proposals.about(request, prompt)
            if guess is None:
                return None
            listeners.add(guess)
            return guess.proposal

        if self._remembers(request):
            asked = replace(self._works.greedy(request, prompt, trims, left_ms), propose=propose)
            if request.caching == "refresh":
                return self._typed_through.begin_anew(asked, listeners)
            return replace(self._typed_through.begin(asked, listeners), guess=guess)
        works = [
            self._works.whole(request, prompt, trims, index, left_ms) for index in range(request.num_choices)
        ]
        if is_greedy(request):
            works = [replace(work, proposal=propose()) for work in works]
        return Begun(self._engine.submit(works, listeners), guess=guess)

    def _known(
        self,
        exact: ExactAnswers,
        address: bytes,
        request: CompletionRequest,
        prompt: Prompt,
        trims: Postprocessing,
    ) -> Begun | None:
        told = exact.get(address) if request.caching == "use" else None
        if told is None:
            return None
        return known_answers(
            told,
            lambda: [
                self._works.bare(request, prompt, trims, index, None) for index in range(request.num_choices)
            ],
        )

    def _remembers(self, request: CompletionRequest) -> bool:
        """Whether its tokens may be known already, and will be."""
        return self._options.suggestions == "on" and request.priority != "batch" and is_remembered(request)

    def _alarm(
        self, follower: Follower, prompt: Prompt, trims: Postprocessing, left_ms: float | None
    ) -> Alarm | None:
        if left_ms is None:
            return None
        return self._set_alarm(max(0.0, left_ms) / 1e3, lambda: self._too_late(follower, prompt, trims))

    def _too_late(self, follower: Follower, prompt: Prompt, trims: Postprocessing) -> None:
        """Its time is up. What is missing is computed when there is nothing else to do, for whoever comes there."""
        if not self._followers.leave(follower, "deadline"):
            return
        follower.answers.cancel("deadline")
        request = follower.request
        if self._remembers(request):
            late = self._works.greedy(idle(request), prompt, trims)
            self._late_work.begin(cursor_of(request), lambda: self._typed_through.look_ahead([late]))


def _choices(deltas: Sequence[ChoiceDelta]) -> tuple[Choice, ...]:
    """Of a whole answer, in their order."""
    by_index: dict[int, list[ChoiceDelta]] = {}
    for delta in deltas:
        by_index.setdefault(delta.index, []).append(delta)
    return tuple(joined(by_index[index]) for index in sorted(by_index))
