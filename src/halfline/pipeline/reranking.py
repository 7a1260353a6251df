"""Of several answers the one that fits best between what stands before the cursor and behind it (C12).

A model that knows no infilling tokens writes on from what stands before; what is behind, it never sees. But it can say
how probable that is behind each of several answers (suffix_judge.py). The greedy answer is replaced where another is
better by `MARGIN` nats. Several answers and that pass take a few times as long as the greedy one, so it is for those
who would rather wait (docs/lab_log.md has what it gains, which is little).
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import Protocol

from halfline.errors import HalflineError
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.pipeline import Pipeline
from halfline.pipeline.suffix_judge import Verdict
from halfline.request import (
    Choice,
    ChoiceDelta,
    Completion,
    CompletionRequest,
    Document,
    Receipt,
)
from halfline.telemetry.log import fields

MARGIN = 2.0
_TEMPERATURE, _TOP_P, _SEED = 0.7, 0.95, 0

_log = logging.getLogger(__name__)


class Judge(Protocol):
    async def verdict(self, request: CompletionRequest, document: Document, texts: Sequence[str]) -> Verdict:
        """Of answers to the request. Raises any HalflineError."""


class Reranking:
    """A pipeline whose greedy editor answers are chosen among several; all else passes through."""

    def __init__(
        self,
        pipeline: Pipeline,
        judge: Judge,
        options: PipelineOptions,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._pipeline = pipeline
        self._judge = judge
        self._num_drawn = options.rerank if options.deadline_ms is None else 0
        self._max_kept = options.kept_receipts
        self._clock = clock
        self._receipts: OrderedDict[str, Receipt] = OrderedDict()  # of answers that were chosen
        # By tenant and id, requests that have their greedy answer and wait for a better one.
        self._choosing: dict[tuple[str, str], asyncio.Future[Completion]] = {}

    def stream(self, request: CompletionRequest) -> AsyncGenerator[ChoiceDelta, None]:
        """As the pipeline's; an answer that is chosen comes whole, as one delta."""
        return self._whole(request) if self._chooses(request) else self._pipeline.stream(request)

    async def complete(self, request: CompletionRequest) -> Completion:
        """As the pipeline's."""
        if not self._chooses(request):
            return await self._pipeline.complete(request)
        started_at = self._clock()
        drawing = asyncio.ensure_future(self._pipeline.complete(self._drawn(request)))
        try:
            greedy = await self._pipeline.complete(request)
            if greedy.choices[0].finish_reason not in ("stop", "length"):
                return greedy
            return await self._best(request, greedy, drawing, started_at)
        finally:
            drawing.cancel()

    def cancel(self, request_id: str, tenant: str) -> bool:
        """As the pipeline's. Who has the greedy answer already, and waits for a better one, gets that."""
        choosing = self._choosing.get((tenant, request_id))
        if choosing is None:
            return self._pipeline.cancel(request_id, tenant)
        choosing.cancel()
        return True

    def receipt(self, request_id: str) -> Receipt | None:
        """As the pipeline's; of a chosen answer with what all of them took."""
        return self._receipts.get(request_id) or self._pipeline.receipt(request_id)

    async def final_receipt(self, request_id: str) -> Receipt | None:
        """As `receipt`, with its last numbers."""
        return self._receipts.get(request_id) or await self._pipeline.final_receipt(request_id)

    def _chooses(self, request: CompletionRequest) -> bool:
        """With a deadline (the server's: nobody), or to see how an answer came about, the greedy one is given."""
        return (
            self._num_drawn > 0
            and isinstance(request.prompt, Document)
            and bool(request.prompt.suffix.strip())
            and request.params.greedy
            and request.params.logprobs is None
            and request.deadline_ms is None
            and request.num_choices == 1
            and not request.echo
            and request.max_tokens > 0
        )

    def _drawn(self, request: CompletionRequest) -> CompletionRequest:
        """The same draws each time. Nobody's cursor: it neither replaces the greedy answer nor is replaced by it."""
        params = replace(request.params, temperature=_TEMPERATURE, top_p=_TOP_P, seed=_SEED)
        return replace(
            request, id=f"{request.id}.drawn", params=params, num_choices=self._num_drawn, identity=None
        )

    async def _whole(self, request: CompletionRequest) -> AsyncGenerator[ChoiceDelta, None]:
        completion = await self.complete(request)
        for choice in completion.choices:
            yield ChoiceDelta(
                index=choice.index,
                text=choice.text,
                token_ids=choice.token_ids,
                finish_reason=choice.finish_reason,
                tier=completion.receipt.tier,
            )

    async def _best(
        self,
        request: CompletionRequest,
        greedy: Completion,
        drawing: asyncio.Future[Completion],
        started_at: float,
    ) -> Completion:
        """The greedy answer too, where no other is better, can be computed, or is waited for any longer."""
        choosing = asyncio.ensure_future(self._choose(request, greedy, drawing, started_at))
        name = (request.tenant, request.id)
        self._choosing[name] = choosing
        try:
            await asyncio.wait((choosing,))
        finally:
            del self._choosing[name]
            choosing.cancel()
        if choosing.cancelled():
            return greedy
        try:
            return choosing.result()
        except HalflineError as error:
            _log.debug("no better answer", extra=fields(reason=str(error)))
            return greedy

    async def _choose(
        self,
        request: CompletionRequest,
        greedy: Completion,
        drawing: asyncio.Future[Completion],
        started_at: float,
    ) -> Completion:
        assert isinstance(request.prompt, Document)
        drawn = await drawing
        answers = _different((*greedy.choices, *drawn.choices))
        if len(answers) == 1:
            return greedy
        verdict = await self._judge.verdict(request, request.prompt, [answer.text for answer in answers])
        best = max(range(len(answers)), key=lambda place: verdict.logprobs[place])
        gain = verdict.logprobs[best] - verdict.logprobs[0]
        if gain < MARGIN:
            best = 0
        receipt = replace(
            greedy.receipt,
            num_computed_tokens=greedy.receipt.num_computed_tokens
            + drawn.receipt.num_computed_tokens
            + verdict.num_computed,
            total_ms=(self._clock() - started_at) * 1e3,
            ledger={**greedy.receipt.ledger, "answers": len(answers), "chosen": best, "gain_nats": gain},
        )
        self._receipts[receipt.request_id] = receipt
        if len(self._receipts) > self._max_kept:
            self._receipts.popitem(last=False)
        return Completion(greedy.request_id, (replace(answers[best], index=0),), receipt)


def _different(choices: Sequence[Choice]) -> list[Choice]:
    """Each text once, in order, and only of answers that came to their end."""
    found: dict[str, Choice] = {}
    for choice in choices:
        if choice.finish_reason in ("stop", "length"):
            found.setdefault(choice.text, choice)
    return list(found.values())
