"""Among several answers the one that fits what is behind is shown, and only for whom it is meant."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

import pytest

from halfline.errors import HalflineError, NotNow, UnusableLogits
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.reranking import MARGIN, Reranking
from halfline.pipeline.suffix_judge import Verdict
from halfline.request import (
    Choice,
    ChoiceDelta,
    Completion,
    CompletionRequest,
    Document,
    FinishReason,
    Identity,
    Receipt,
    SamplingParams,
)

_REQUEST = CompletionRequest(
    id="r",
    prompt=Document("a = ", "\nb", "x.py"),
    params=SamplingParams(),
    max_tokens=8,
    identity=Identity("local", "me", "x.py"),
)


def _receipt(request_id: str) -> Receipt:
    return Receipt(
        request_id=request_id,
        num_prompt_tokens=4,
        num_reused_tokens=0,
        num_computed_tokens=10,
        num_generated_tokens=3,
        queue_ms=0.0,
        prefill_ms=0.0,
        decode_ms=0.0,
        total_ms=1.0,
        finish_reasons=("stop",),
    )


class _Pipeline:
    """Answers "greedy" to whoever asks greedily, else what it was told to draw."""

    def __init__(self, drawn: Sequence[str], reason: FinishReason = "stop") -> None:
        self._drawn = drawn
        self._reason = reason
        self.asked: list[CompletionRequest] = []

    async def complete(self, request: CompletionRequest) -> Completion:
        self.asked.append(request)
        await asyncio.sleep(0)
        texts = ["greedy"] if request.params.greedy else self._drawn[: request.num_choices]
        reason = self._reason if request.params.greedy else "stop"
        choices = tuple(Choice(i, text, (i,), reason) for i, text in enumerate(texts))
        return Completion(request.id, choices, _receipt(request.id))

    async def stream(self, request: CompletionRequest) -> AsyncGenerator[ChoiceDelta, None]:
        self.asked.append(request)
        yield ChoiceDelta(0, "passed through", finish_reason="stop")

    def cancel(self, request_id: str, tenant: str) -> bool:
        return False

    def receipt(self, request_id: str) -> Receipt | None:
        return None

    async def final_receipt(self, request_id: str) -> Receipt | None:
        return self.receipt(request_id)


class _Judge:
    def __init__(self, likes: dict[str, float], *, failure: HalflineError | None = None) -> None:
        self._likes = likes
        self._failure = failure
        self.judged: list[str] = []

    async def verdict(self, request: CompletionRequest, document: Document, texts: Sequence[str]) -> Verdict:
        if self._failure is not None:
            raise self._failure
        self.judged += texts
        return Verdict(tuple(self._likes.get(text, -50.0) for text in texts), num_computed=7)


def _complete(
    pipeline: _Pipeline, judge: _Judge, request: CompletionRequest = _REQUEST
) -> tuple[Completion, Reranking]:
    reranking = Reranking(pipeline, judge, PipelineOptions(rerank=3), clock=lambda: 0.0)
    return asyncio.run(reranking.complete(request)), reranking


def test_the_answer_that_fits_clearly_better_is_shown_with_what_all_of_them_took() -> None:
    judge = _Judge({"greedy": -20.0, "good": -20.0 + MARGIN, "best": -20.0 + 2 * MARGIN})
    completion, reranking = _complete(_Pipeline(["good", "best", "greedy"]), judge)
    assert judge.judged == ["greedy", "good", "best"]
    assert [(choice.index, choice.text) for choice in completion.choices] == [(0, "best")]
    assert completion.receipt.num_computed_tokens == 27
    assert completion.receipt.ledger == {"answers": 3, "chosen": 2, "gain_nats": 2 * MARGIN}
    assert reranking.receipt("r") == completion.receipt


def test_a_little_better_is_not_better() -> None:
    judge = _Judge({"greedy": -20.0, "good": -20.0 + 0.9 * MARGIN})
    completion, _ = _complete(_Pipeline(["good"]), judge)
    assert completion.choices[0].text == "greedy"


def test_draws_are_the_same_each_time_and_nobodys_cursor() -> None:
    pipeline = _Pipeline(["a", "b"])
    _complete(pipeline, _Judge({}))
    (drawn,) = (request for request in pipeline.asked if not request.params.greedy)
    assert drawn.params.seed is not None and drawn.identity is None and drawn.num_choices == 3


def test_nothing_is_judged_when_all_are_the_same() -> None:
    judge = _Judge({})
    completion, reranking = _complete(_Pipeline(["greedy", "greedy"]), judge)
    assert (completion.choices[0].text, judge.judged) == ("greedy", [])
    assert reranking.receipt("r") is None  # the pipeline's own


def test_an_answer_that_was_replaced_by_a_newer_request_is_not_judged() -> None:
    judge = _Judge({"a": 0.0})
    completion, _ = _complete(_Pipeline(["a"], "superseded"), judge)
    assert (completion.choices[0].finish_reason, judge.judged) == ("superseded", [])


@pytest.mark.parametrize("failure", [NotNow("too many", 1.0), UnusableLogits("not a number")])
def test_the_greedy_answer_is_shown_where_no_other_can_be_judged(failure: HalflineError) -> None:
    completion, _ = _complete(_Pipeline(["a"]), _Judge({"a": 0.0}, failure=failure))
    assert completion.choices[0].text == "greedy"


def test_who_cancels_while_answers_are_judged_gets_the_greedy_one() -> None:
    class Thoughtful(_Judge):
        async def verdict(
            self, request: CompletionRequest, document: Document, texts: Sequence[str]
        ) -> Verdict:
            judging.set()
            await asyncio.Event().wait()
            raise AssertionError("nobody sets it")

    async def main() -> None:
        reranking = Reranking(_Pipeline(["a"]), Thoughtful({}), PipelineOptions(rerank=1))
        asked = asyncio.ensure_future(reranking.complete(_REQUEST))
        await judging.wait()
        assert not reranking.cancel("r", "another tenant")
        assert reranking.cancel("r", _REQUEST.tenant)
        assert (await asked).choices[0].text == "greedy"
        assert not reranking.cancel("r", _REQUEST.tenant)  # it has ended

    judging = asyncio.Event()
    asyncio.run(main())


def test_a_client_that_leaves_while_answers_are_judged_takes_the_judging_along() -> None:
    given_up: list[str] = []

    class Thoughtful(_Judge):
        async def verdict(
            self, request: CompletionRequest, document: Document, texts: Sequence[str]
        ) -> Verdict:
            judging.set()
            try:
                await asyncio.Event().wait()
            finally:
                given_up.append(request.id)
            raise AssertionError("nobody sets it")

    async def main() -> None:
        reranking = Reranking(_Pipeline(["a"]), Thoughtful({}), PipelineOptions(rerank=1))
        asked = asyncio.ensure_future(reranking.complete(_REQUEST))
        await judging.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await asyncio.sleep(0)
        assert given_up == ["r"]

    judging = asyncio.Event()
    asyncio.run(main())


def test_only_greedy_answers_with_something_behind_and_time_are_chosen() -> None:
    for request in (
        replace(_REQUEST, prompt="a = "),
        replace(_REQUEST, prompt=Document("a = ", "  \n")),
        replace(_REQUEST, deadline_ms=100),
        replace(_REQUEST, num_choices=2),
        replace(_REQUEST, params=SamplingParams(logprobs=1)),
    ):
        judge = _Judge({"a": 0.0})
        _complete(_Pipeline(["a", "b"]), judge, request)
        assert judge.judged == []
    for options in (PipelineOptions(rerank=0), PipelineOptions(rerank=3, deadline_ms=100)):
        judge = _Judge({"a": 0.0})
        asyncio.run(Reranking(_Pipeline(["a"]), judge, options).complete(_REQUEST))
        assert judge.judged == []


def test_a_stream_is_one_delta_with_the_chosen_answer() -> None:
    async def streamed(request: CompletionRequest) -> list[ChoiceDelta]:
        judge = _Judge({"greedy": -20.0, "a": 0.0})
        reranking = Reranking(_Pipeline(["a"]), judge, PipelineOptions(rerank=1))
        return [delta async for delta in reranking.stream(request)]

    (delta,) = asyncio.run(streamed(_REQUEST))
    assert (delta.text, delta.finish_reason) == ("a", "stop")
    assert asyncio.run(streamed(replace(_REQUEST, prompt="raw")))[0].text == "passed through"
