"""Has answers ready that nobody has asked for yet (C9): idle work, of which nothing is told to anybody.

What it computes is known when somebody asks. Prompts are built without keeping anything of the guess: a document's next
prompt is the same whether or not somebody looked ahead.
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from halfline.document.suggestions import Suggestions
from halfline.engine.handle import EngineHandle, Generation
from halfline.errors import NotNow
from halfline.pipeline.following import Followers
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.postprocess.postprocessing import postprocessing
from halfline.pipeline.prompt import PromptBuilder
from halfline.pipeline.typed_through import Greedy, TypedThrough
from halfline.pipeline.works import Works, is_greedy
from halfline.request import CompletionRequest
from halfline.sampling.alternatives import AlternativesSampler
from halfline.sampling.healing import Spellings
from halfline.sampling.reader import Reader
from halfline.text.detokenizer import Detokenizer
from halfline.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Alternative:
    """`text` may come next at a cursor, with that probability among all that agrees with what stands before it."""

    text: str
    probability: float


class Errand:
    """Idle work under way, which can be called off at once."""

    def __init__(self) -> None:
        self._generation: Generation | None = None
        self.called_off = False

    def call_off(self) -> None:
        """Before this returns the engine has been told, so whoever submits next finds what was computed."""
        self.called_off = True
        if self._generation is not None:
            self._generation.cancel()

    def carry(self, generation: Generation) -> None:
        self._generation = generation
        if self.called_off:
            generation.cancel()


class Foresight(Protocol):
    """What somebody who looks ahead may ask for. All of it ends early, and quietly, when there is no room or the errand
    is called off; cancelling the caller calls it off too.
    """

    @property
    def busy(self) -> bool:
        """Whether somebody waits for an answer."""

    async def alternatives(self, request: CompletionRequest, count: int, errand: Errand) -> list[Alternative]:
        """How the text may go on at the request's cursor, the likeliest first; several may begin alike."""

    async def look_ahead(self, guesses: Sequence[CompletionRequest], most: int, errand: Errand) -> None:
        """Have the answers known of the first `most` guesses of which something is missing, as one batch."""


class PipelineForesight:
    """The pipeline's."""

    def __init__(
        self,
        engine: EngineHandle,
        followers: Followers,
        prompts: PromptBuilder,
        works: Works,
        suggestions: Suggestions,
        typed_through: TypedThrough,
        tokenizer: Tokenizer,
        spellings: Spellings,
        options: PipelineOptions,
    ) -> None:
        self._engine = engine
        self._followers = followers
        self._prompts = prompts
        self._works = works
        self._suggestions = suggestions
        self._typed_through = typed_through
        self._tokenizer = tokenizer
        self._spellings = spellings
        self._options = options

    @property
    def busy(self) -> bool:
        return self._followers.num_waiting > 0

    async def alternatives(self, request: CompletionRequest, count: int, errand: Errand) -> list[Alternative]:
        if not self._remembers(request):
            return []
        asked = await self._asked(request)
        token_ids, forced = self._up_to_the_cursor(asked)
        work = replace(
            asked.work,
            prompt_ids=asked.work.prompt_ids + token_ids,
            max_new_tokens=1,
            sampler=AlternativesSampler(self._spellings, forced, count),
            reader=Reader(Detokenizer(self._tokenizer)),
            stop_token_ids=frozenset(),
            forced_ids=(),
            max_forced_tokens=0,
        )
        try:
            generation = self._engine.submit([work])
        except NotNow:
            return []
        errand.carry(generation)
        try:
            async for _, progress in generation:
                for token in progress.sampled:
                    return self._texts(token.top, forced)
        finally:
            generation.cancel()
        return []

    async def look_ahead(self, guesses: Sequence[CompletionRequest], most: int, errand: Errand) -> None:
        asked = []
        for guess in filter(self._remembers, guesses):
            if errand.called_off:
                return
            asked.append(await self._asked(guess))
            await asyncio.sleep(0)  # a keystroke does not wait for all these prompts
        try:
            generation = self._typed_through.look_ahead(asked, most)
        except NotNow:
            return
        if generation is None:
            return
        errand.carry(generation)
        try:
            async for _ in generation:
                pass
        finally:
            generation.cancel()

    def _remembers(self, request: CompletionRequest) -> bool:
        return self._options.suggestions == "on" and is_greedy(request)

    async def _asked(self, request: CompletionRequest) -> Greedy:
        prompt = await self._prompts.build(request, keeps=False)
        return self._works.greedy(idle(request), prompt, postprocessing(request, self._options))

    def _up_to_the_cursor(self, asked: Greedy) -> tuple[tuple[int, ...], bytes]:
        """The known tokens that end before the cursor, and what has still to come behind them."""
        walk = self._suggestions.walk(asked.namespace, asked.work.prompt_ids, asked.forced, ahead=True)
        token_ids: list[int] = []
        forced = asked.forced
        while forced and (token := walk.known()) is not None and walk.forced:
            token_ids.append(token.token_id)
            forced = walk.forced
        return tuple(token_ids), forced

    def _texts(self, top: Sequence[tuple[int, float]], forced: bytes) -> list[Alternative]:
        """What the tokens spell beyond `forced`, as far as these are whole characters."""
        found = []
        for token_id, logprob in top:
            spelled = self._spellings.of(token_id)[len(forced) :].decode(errors="ignore")
            if spelled:
                found.append(Alternative(spelled, math.exp(logprob)))
        return found


def idle(request: CompletionRequest) -> CompletionRequest:
    """The same, for nobody."""
    return replace(request, priority="idle", deadline_ms=None, identity=None)
