"""A pipeline that needs no model: it answers with letters, and remembers who was still reading."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

from halfline.api.app import Beside, create_app
from halfline.api.chat_template import ChatTemplate
from halfline.api.keys.key_ring import KeyRing
from halfline.api.live import LiveRequests
from halfline.api.local_names import LocalNames
from halfline.api.options import ApiOptions
from halfline.api.serving import Loaded, ServedModel
from halfline.cache.fragments import Fragments
from halfline.context.templates.library import TaskLibrary
from halfline.engine.stats import EngineStats
from halfline.pipeline.embed import Embedding
from halfline.request import (
    Choice,
    ChoiceDelta,
    Completion,
    CompletionRequest,
    Document,
    FinishReason,
    Receipt,
    Tier,
    TokenLogprob,
)
from halfline.telemetry.latencies import Latencies
from halfline.text.token_bytes import byte_alphabet
from halfline.text.tokenizer import Tokenizer
from halfline.text.vocab import VocabSpec

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

# A token per byte, and the markers of a chat.
LETTERS = Tokenizer(
    VocabSpec(
        kind="bpe",
        tokens=(*SPECIAL, *byte_alphabet().values()),
        token_types=(3,) * len(SPECIAL) + (1,) * 256,
        pre_tokenizer="gpt-2",
        eos_ids=(0,),
    )
)


@dataclass
class FakePipeline:
    """Token number t of every choice is the letter abcdef…[t]; choice c's tokens have logprob -(c + 1).

    `gate` holds generation after the first token until it is set, `settles` the last numbers of what has ended.
    `refusal` is raised before the first delta.
    `fails` ends every choice with "failed" after one token, `sheds` is raised then; `ends_with` is how others end.
    No choice has more than `most_tokens`. `tier`, `address` and `ended_by` are what all receipts say.
    """

    gate: asyncio.Event | None = None
    settles: asyncio.Event | None = None
    refusal: Exception | None = None
    fails: bool = False
    sheds: Exception | None = None
    ends_with: FinishReason = "length"
    most_tokens: int = 1 << 30
    tier: Tier = "miss"
    address: str | None = None
    ended_by: str | None = None
    requests: list[CompletionRequest] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    called_off: list[str] = field(default_factory=list)
    receipts: dict[str, Receipt] = field(default_factory=dict)

    async def stream(self, request: CompletionRequest) -> AsyncGenerator[ChoiceDelta, None]:
        self.requests.append(request)
        if self.refusal is not None:
            raise self.refusal
        finished = False
        try:
            for token in range(min(request.max_tokens, self.most_tokens)):
                if token == 1 and self.gate is not None:
                    await self.gate.wait()
                elif token:
                    await asyncio.sleep(0)  # a real one waits for the engine
                for index in range(request.num_choices):
                    yield self._delta(request, index, token)
                if self.sheds is not None:
                    raise self.sheds
                if self.fails:
                    break
            if request.max_tokens == 0:
                for index in range(request.num_choices):
                    yield ChoiceDelta(index, "", finish_reason=self._finish(request))
            finished = True
        finally:
            if not finished:
                self.cancelled.append(request.id)
            self._keep_receipt(request, self._finish(request) if finished else "cancelled")

    async def complete(self, request: CompletionRequest) -> Completion:
        deltas = [delta async for delta in self.stream(request)]
        choices = []
        for index in range(request.num_choices):
            own = [delta for delta in deltas if delta.index == index]
            wants_logprobs = request.params.logprobs is not None
            choices.append(
                Choice(
                    index=index,
                    text="".join(delta.text for delta in own),
                    token_ids=tuple(token for delta in own for token in delta.token_ids),
                    finish_reason=self._finish(request),
                    logprobs=tuple(t for d in own for t in d.logprobs or ()) if wants_logprobs else None,
                )
            )
        return Completion(request.id, tuple(choices), self.receipts[request.id])

    def cancel(self, request_id: str, tenant: str) -> bool:
        """What was asked for is noted; the generation goes on until the gate opens."""
        running = {request.id: request.tenant for request in self.requests}
        known = running.get(request_id) == tenant and request_id not in self.receipts
        if known:
            self.called_off.append(request_id)
        return known

    def receipt(self, request_id: str) -> Receipt | None:
        return self.receipts.get(request_id)

    async def final_receipt(self, request_id: str) -> Receipt | None:
        if self.settles is not None:
            await self.settles.wait()
        return self.receipts.get(request_id)

    def _finish(self, request: CompletionRequest) -> FinishReason:
        return "failed" if self.fails else self.ends_with

    def _delta(self, request: CompletionRequest, index: int, token: int) -> ChoiceDelta:
        letter = chr(ord("a") + token % 26)
        logprobs = None
        if request.params.logprobs is not None:
            top = tuple((n, chr(ord("A") + n), -1.5 - n) for n in range(request.params.logprobs))
            logprobs = (TokenLogprob(token, letter, -1.0 - index, token, top),)
        is_last = self.fails or token == min(request.max_tokens, self.most_tokens) - 1
        return ChoiceDelta(
            index, letter, (token,), logprobs, self._finish(request) if is_last else None, self.tier
        )

    def _keep_receipt(self, request: CompletionRequest, reason: FinishReason) -> None:
        prompt = request.prompt
        num_prompt_tokens = len(prompt.prefix) if isinstance(prompt, Document) else len(prompt)
        self.receipts[request.id] = Receipt(
            request_id=request.id,
            num_prompt_tokens=num_prompt_tokens,
            num_reused_tokens=num_prompt_tokens // 2,
            num_computed_tokens=num_prompt_tokens - num_prompt_tokens // 2,
            num_generated_tokens=request.max_tokens * request.num_choices,
            queue_ms=1.0,
            prefill_ms=2.0,
            decode_ms=3.0,
            total_ms=6.0,
            finish_reasons=(reason,) * request.num_choices,
            tier=self.tier,
            num_known_tokens=0 if self.tier == "miss" else 2,
            num_unshown_tokens=1,
            tenant=request.tenant,
            address=self.address,
            ended_by=(self.ended_by,) * request.num_choices,
        )


class FakeEmbedder:
    """The vector of a text or of token ids is (1, its length)."""

    async def embed(
        self, prompt: str | tuple[int, ...], tenant: str, user: str = "", key: str = ""
    ) -> Embedding:
        return Embedding(np.array([1.0, len(prompt)], np.float32), len(prompt))


@dataclass
class Stage:
    """A running application around a fake pipeline; tests turn its knobs between requests."""

    pipeline: FakePipeline
    app: FastAPI
    client: httpx.AsyncClient
    live: LiveRequests
    failure: BaseException | None = None
    num_running: int = 1
    num_closed: int = 0

    async def complete(self, **body: object) -> httpx.Response:
        return await self.client.post("/v1/completions", json={"model": "any", **body})


@pytest.fixture
def on_stage() -> Callable[..., object]:
    """`async with on_stage(options, load=...) as stage`: the application with its lifespan, loaded."""

    @asynccontextmanager
    async def stage(
        options: ApiOptions | None = None,
        load: Callable[[], Loaded] | None = None,
        keys: KeyRing | None = None,
        beside: Sequence[Beside] = (),
        tasks: TaskLibrary | None = None,
        fragments: Fragments | None = None,
        local: LocalNames | None = None,
    ) -> AsyncIterator[Stage]:
        pipeline, live = FakePipeline(), LiveRequests()

        def close() -> None:
            scene.num_closed += 1

        def load_fake() -> Loaded:
            return Loaded(
                pipeline=pipeline,
                embedder=FakeEmbedder(),
                model=ServedModel(name="letters", max_context=512, infill_format="letters"),
                tokenizer=LETTERS,
                chat=ChatTemplate(LETTERS),
                engine_state=lambda: EngineStats(
                    num_running=scene.num_running,
                    num_held_blocks=2,
                    num_cached_blocks=3,
                    total_evicted_tails=5,
                    total_evicted_blocks=6,
                    cancels=Latencies().observed(0.004),
                    total_drafted_tokens={"own": 7},
                    total_accepted_tokens={"own": 4},
                ),
                failure=lambda: scene.failure,
                close=close,
                tasks=tasks or TaskLibrary(),
                fragments=fragments,
            )

        app = create_app(load or load_fake, options or ApiOptions(), live, keys, beside=beside, local=local)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            scene = Stage(pipeline, app, client, live)
            async with app.router.lifespan_context(app):
                while load is None and (await client.get("/health")).status_code != 200:
                    await asyncio.sleep(0)
                yield scene

    return stage
