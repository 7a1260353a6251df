"""Has answers ready that nobody has asked for yet (C9): idle work, of which nothing is told to anybody.

What it computes is known when somebody asks. Prompts are built without keeping anything of the guess: a document's next
prompt is the same whether or not somebody looked ahead.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from halfline.document.suggestions import Suggestions
from halfline.engine.handle import EngineHandle, Generation
from halfline.engine.sequence import Work
from halfline.errors import NotNow
from halfline.pipeline.following import Followers
from halfline.pipeline.late_work import cursor_of
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.postprocess.postprocessing import postprocessing
from halfline.pipeline.prompt import Prompt, PromptBuilder
from halfline.pipeline.read_ahead import ReadAhead
from halfline.pipeline.typed_through import Greedy, TypedThrough
from halfline.pipeline.works import Works, is_remembered
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
        generation, self._generation = self._generation, None  # which holds a whole document
        if generation is not None:
            generation.cancel()

    def carry(self, generation: Generation) -> None:
        if self.called_off:
            generation.cancel()
        else:
            self._generation = generation


class Foresight(Protocol):
    """What somebody who looks ahead may ask for. All of it ends early, and quietly, when there is no room or the errand
    is called off; cancelling the caller calls it off too.
    """

    @property
    def busy(self) -> bool:
        """Whether somebody waits for an answer."""

    @property
    def compute_s(self) -> float:
        """Seconds that the engine has computed, for whomever."""

    async def alternatives(self, request: CompletionRequest, count: int, errand: Errand) -> list[Alternative]:
        """How the text may go on at the request's cursor, the likeliest first; several may begin alike."""

    async def read_ahead(self, request: CompletionRequest, errand: Errand) -> None:
        """Have read what is due of how the prompts of the request's document will begin, if that is known."""

    def keep_up(self, request: CompletionRequest) -> None:
        """Have what was due earlier be read now, if no pause was long enough for it; not an errand of anybody."""

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
        self._read_ahead = ReadAhead(engine, works)

    @property
    def busy(self) -> bool:
        return self._followers.num_waiting > 0

    @property
    def compute_s(self) -> float:
        return self._engine.stats().total_compute_s

    async def alternatives(self, request: CompletionRequest, count: int, errand: Errand) -> list[Alternative]:
        if errand.called_off or not self._remembers(request):
            return []
        asked = await self._asked(request)
        works = [self._probe(asked, token_ids, forced, count) for token_ids, forced in self._places(asked)]
        try:
            generation = self._engine.submit(works)
        except NotNow:
            return []
        errand.carry(generation)
        tops: dict[int, Sequence[tuple[int, float]]] = {}
        try:
            async for position, progress in generation:
                for token in progress.sampled:
                    tops[position] = token.top
        finally:
            generation.cancel()
        return self._merged(works, tops) if len(tops) == len(works) else []

    def answered(self, request: CompletionRequest, prompt: Prompt) -> None:
        """To be told of every request that ends."""
        cursor = cursor_of(request)
        if cursor is not None and request.priority == "interactive":
            self._read_ahead.due(cursor, prompt.planned_ids)

    async def read_ahead(self, request: CompletionRequest, errand: Errand) -> None:
        cursor = cursor_of(request)
        if cursor is not None and not errand.called_off:
            await self._read_ahead.read(cursor, request, errand.carry)

    def keep_up(self, request: CompletionRequest) -> None:
        cursor = cursor_of(request)
        if cursor is not None:
            self._read_ahead.keep_up(cursor, request)

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
        return self._options.suggestions == "on" and is_remembered(request)

    async def _asked(self, request: CompletionRequest) -> Greedy:
        prompt = await self._prompts.build(request, keeps=False)
        return self._works.greedy(idle(request), prompt, postprocessing(request, self._options))

    def _places(self, asked: Greedy) -> list[tuple[tuple[int, ...], bytes]]:
        """Tokens behind the prompt, and what has still to come behind them: where the cursor's word may go on, and
        behind it as it stands.
        """
        walk = self._suggestions.walk(asked.namespace, asked.work.prompt_ids, asked.forced, ahead=True)
        token_ids: list[int] = []
        forced = asked.forced
        while forced and (token := walk.known()) is not None and walk.forced:
            token_ids.append(token.token_id)
            forced = walk.forced
        places = [(tuple(token_ids), forced)]
        return [*places, (asked.work.forced_ids, b"")] if forced and asked.work.forced_ids else places

    def _probe(self, asked: Greedy, token_ids: tuple[int, ...], forced: bytes, count: int) -> Work:
        return replace(
            asked.work,
            prompt_ids=asked.work.prompt_ids + token_ids,
            max_new_tokens=1,
            sampler=AlternativesSampler(self._spellings, forced, count),
            reader=Reader(Detokenizer(self._tokenizer)),
            stop_token_ids=frozenset(),
            forced_ids=(),
            max_forced_tokens=0,
        )

    def _merged(
        self, works: Sequence[Work], tops: Mapping[int, Sequence[tuple[int, float]]]
    ) -> list[Alternative]:
        """The word as it goes on, and, as likely as that is, what comes behind it as it stands."""
        found: list[Alternative] = []
        chance = 1.0
        for position in range(len(works)):
            here = [
                (self._beyond(works[position], token_id), math.exp(logprob))
                for token_id, logprob in tops[position]
            ]
            found += [Alternative(text, chance * each) for text, each in here if text]
            chance *= sum(each for text, each in here if not text)
        return sorted(found, key=lambda each: -each.probability)

    def _beyond(self, work: Work, token_id: int) -> str:
        """What the token spells behind the forced text, as far as it is whole characters."""
        assert isinstance(work.sampler, AlternativesSampler)
        spelled = self._spellings.of(token_id)[len(work.sampler.forced) :]
        return spelled.decode(errors="ignore")


def idle(request: CompletionRequest) -> CompletionRequest:
    """The same, for nobody."""
    return replace(request, priority="idle", deadline_ms=None, identity=None)
