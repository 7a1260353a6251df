"""A tiny model that knows infill markers: its order is tried, and prompts in every order are answered from reused KV as
from none.
"""

import asyncio
from dataclasses import replace

import pytest

from halfline.context.order_trial import try_orders
from halfline.engine.handle import EngineHandle
from halfline.engine.options import EngineOptions
from halfline.model.random_model import random_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.options import PipelineOptions
from halfline.request import CompletionRequest, Document, SamplingParams
from halfline.text.infill import InfillOrder, find_infill_format, usable_orders
from halfline.text.tokenizer import Tokenizer

CHECKPOINT = random_checkpoint(vocab_size=262, max_context=1024)
VOCAB = replace(
    CHECKPOINT.vocab,
    tokens=(*CHECKPOINT.vocab.tokens[:258], "<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<unused>"),
    token_types=(*CHECKPOINT.vocab.token_types[:258], 3, 3, 3, 5),
)
TOKENIZER = Tokenizer(VOCAB)
BEFORE = "def total(values):\n    result = 0\n    for value in values:\n        "
TYPED = "result += value_of(x"
BEHIND = ")\n    return result\n"
OPTIONS = PipelineOptions(
    prefix_tokens=256, fresh_prefix_tokens=128, suffix_tokens=64, postprocess=False, suggestions="off"
)


def test_a_trial_says_the_same_whatever_the_arena_held() -> None:
    infill = find_infill_format(TOKENIZER)
    assert infill is not None
    executor = NativeExecutor(CHECKPOINT, num_blocks=64, num_threads=1)
    first, again = (try_orders(executor, TOKENIZER, infill, clock=lambda: 0.0) for _ in range(2))
    assert first.order in usable_orders(infill)
    assert again.logprobs == first.logprobs


async def answers(order: InfillOrder, *, anew: bool) -> list[str]:
    """What comes at each keystroke; `anew`: from an engine that has computed nothing but this answer."""
    found = []
    executor = NativeExecutor(CHECKPOINT, num_blocks=128, num_threads=1)
    lengths = range(len(TYPED) + 1)
    pipelines = {}
    for length in lengths:
        if anew or not pipelines:
            engine = EngineHandle(executor, EngineOptions(speculation="off" if anew else "auto"))
            engine.start()
            pipeline = CompletionPipeline(engine, TOKENIZER, CHECKPOINT.spec, OPTIONS, infill_order=order)
            pipelines[engine] = pipeline
        for past in range(length if anew else 0):  # the prompt depends on its history, and on nothing else
            await pipeline._prompts.build(request(past))
        found.append((await pipeline.complete(request(length))).choices[0].text)
        if anew:
            await asyncio.to_thread(engine.close, 0.0)
    if not anew:
        await asyncio.to_thread(engine.close, 0.0)
    return found


def request(length: int) -> CompletionRequest:
    document = Document(BEFORE + TYPED[:length], BEHIND, "a.py")
    return CompletionRequest(id=f"r{length}", prompt=document, params=SamplingParams(), max_tokens=8)


@pytest.mark.parametrize("order", ["psm", "spm", "anchored", "prefix_only"])
def test_in_every_order_a_keystroke_answers_as_if_nothing_had_been_computed_before(
    order: InfillOrder,
) -> None:
    assert asyncio.run(answers(order, anew=False)) == asyncio.run(answers(order, anew=True))
