"""What the judge reads behind reused KV is what a client reads who has the whole text scored."""

import asyncio
from pathlib import Path

import pytest

from halfline.engine.handle import EngineHandle
from halfline.engine.options import EngineOptions
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.suffix_judge import HEAD_CHARACTERS, Verdict
from halfline.request import CompletionRequest, Document, SamplingParams
from halfline.text.tokenizer import Tokenizer

_DOCUMENT = Document(
    "def mean(numbers):\n    total = 0\n    for number in numbers:\n        ",
    "\n    return total / len(numbers)\n",
    "mean.py",
)
_TEXTS = ("total += number", "print(number)", "")


def test_scores_behind_reused_kv_are_those_of_the_whole_text(embedded_model: Path) -> None:
    checkpoint = open_checkpoint(embedded_model)
    tokenizer = Tokenizer(checkpoint.vocab)
    engine = EngineHandle(NativeExecutor(checkpoint, num_blocks=256), EngineOptions())
    pipeline = CompletionPipeline(engine, tokenizer, checkpoint.spec, PipelineOptions())
    checkpoint.close()
    engine.start()

    async def both() -> tuple[Verdict, list[float]]:
        request = CompletionRequest(id="r", prompt=_DOCUMENT, params=SamplingParams(), max_tokens=4)
        completion = await pipeline.complete(request)
        verdict = await pipeline.judge.verdict(request, _DOCUMENT, _TEXTS)
        num_before = completion.receipt.num_prompt_tokens
        return verdict, [await whole(text, num_before) for text in _TEXTS]

    async def whole(text: str, num_before: int) -> float:
        """By the log-probabilities of an echo, of what stands behind the first `num_before` tokens."""
        ids = tokenizer.encode(_DOCUMENT.prefix)
        forced = tokenizer.decode(ids[num_before:])
        behind = tokenizer.encode(forced + text + _DOCUMENT.suffix[:HEAD_CHARACTERS], continues=True)
        echo = await pipeline.complete(
            CompletionRequest(
                id=f"whole {text}",
                prompt=(*ids[:num_before], *behind),
                params=SamplingParams(logprobs=0),
                max_tokens=0,
                echo=True,
            )
        )
        scored = echo.choices[0].logprobs
        assert scored is not None
        return sum(each.logprob or 0.0 for each in scored[num_before:])

    try:
        verdict, expected = asyncio.run(both())
    finally:
        engine.close(0.0)
    assert verdict.logprobs == pytest.approx(tuple(expected), abs=1e-9)
    assert max(range(3), key=lambda place: verdict.logprobs[place]) == 0
    # Little more than answers and heads: what stands before was known.
    assert verdict.num_computed < 3 * (4 + HEAD_CHARACTERS // 2)
