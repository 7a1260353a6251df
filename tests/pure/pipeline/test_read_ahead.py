"""What a window will begin with is read in pauses, so that it need not be computed when it does; it reads the same."""

import asyncio

from halfline.context.layout import GROWS_AFTER, PLANS_AFTER
from halfline.engine.handle import EngineHandle, Generation
from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.engine.sequence import Work
from halfline.model.random_model import byte_vocab
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.foresight import Errand
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.read_ahead import MAX_PLANS, PIECE_TOKENS, ReadAhead
from halfline.request import Completion, CompletionRequest, Document, SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler
from halfline.text.detokenizer import Detokenizer
from halfline.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(byte_vocab())
OPTIONS = PipelineOptions(
    prefix_tokens=900, fresh_prefix_tokens=150, grown_prefix_tokens=700, postprocess=False
)
BEFORE = "".join(f"    line {n} of it = {n * 7919 % 1000};\n" for n in range(100))
TYPED = "value = another_value + (1, 2);\n    more(value)"


def request(length: int) -> CompletionRequest:
    document = Document(BEFORE + TYPED[:length], "\nrest\n", "a.rs")
    params = SamplingParams(ignore_eos=True)
    return CompletionRequest(id=f"r{length}", prompt=document, params=params, max_tokens=2)


async def typed(*, pauses: bool) -> list[Completion]:
    executor = HashExecutor(1024)
    engine = EngineHandle(executor, EngineOptions())
    engine.start()
    pipeline = CompletionPipeline(engine, TOKENIZER, executor.spec, OPTIONS)
    found = []
    try:
        for length in range(GROWS_AFTER + 4):
            found.append(await pipeline.complete(request(length)))
            if pauses:
                num_before = engine.stats().total_computed_tokens
                await pipeline.foresight.read_ahead(request(length), Errand())
                assert engine.stats().total_computed_tokens - num_before <= PIECE_TOKENS
    finally:
        await asyncio.to_thread(engine.close, 0.0)
    return found


def test_a_window_that_was_read_ahead_costs_a_keystroke_hardly_anything() -> None:
    hasty, patient = asyncio.run(typed(pauses=False)), asyncio.run(typed(pauses=True))
    reasons = [completion.receipt.ledger["anchor"] for completion in patient]
    assert reasons.index("grown") == GROWS_AFTER
    grown = hasty[GROWS_AFTER].receipt
    missing = grown.num_prompt_tokens - grown.num_reused_tokens
    assert missing > 300, "nobody had read it"
    grown = patient[GROWS_AFTER].receipt
    assert grown.num_prompt_tokens - grown.num_reused_tokens <= GROWS_AFTER - PLANS_AFTER + 2
    assert [each.choices for each in patient] == [each.choices for each in hasty]


def test_the_plan_that_was_not_read_for_longest_is_forgotten_first() -> None:
    async def main() -> None:
        executor = HashExecutor(1024)
        engine = EngineHandle(executor, EngineOptions())
        engine.start()
        ahead = ReadAhead(engine, TOKENIZER)

        async def num_submitted(first_id: int) -> int:
            work = Work(
                prompt_ids=(1,),
                max_new_tokens=1,
                sampler=Sampler(SamplingParams(), ()),
                reader=Reader(Detokenizer(TOKENIZER)),
                stop_token_ids=frozenset(),
                namespace="",
            )
            carried: list[Generation] = []
            await ahead.read(work, (first_id,) * PIECE_TOKENS, carried.append)
            return len(carried)

        try:
            assert [await num_submitted(0), await num_submitted(0)] == [1, 0]
            for other in range(1, MAX_PLANS + 10):
                assert await num_submitted(other) == 1
                assert await num_submitted(0) == 0, "it was read, and asked for again and again"
            assert await num_submitted(1) == 1, "it was forgotten"
        finally:
            await asyncio.to_thread(engine.close, 0.0)

    asyncio.run(main())


def test_an_errand_that_was_called_off_reads_nothing() -> None:
    async def main() -> None:
        executor = HashExecutor(1024)
        engine = EngineHandle(executor, EngineOptions())
        engine.start()
        pipeline = CompletionPipeline(engine, TOKENIZER, executor.spec, OPTIONS)
        try:
            for length in range(PLANS_AFTER + 1):
                await pipeline.complete(request(length))
            errand = Errand()
            errand.call_off()
            num_before = engine.stats().total_computed_tokens
            await pipeline.foresight.read_ahead(request(PLANS_AFTER), errand)
            assert engine.stats().total_computed_tokens == num_before
        finally:
            await asyncio.to_thread(engine.close, 0.0)

    asyncio.run(main())
