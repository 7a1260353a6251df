"""What a window will begin with is read in pauses, or piece by piece without any; it reads the same."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Literal

from halfline.engine.handle import EngineHandle, Generation
from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.engine.sequence import Progress, Work
from halfline.model.random_model import byte_vocab
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.foresight import Errand
from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.read_ahead import ReadAhead
from halfline.pipeline.works import Works
from halfline.request import Completion, CompletionRequest, Document, Identity, SamplingParams
from halfline.text.spellings import Spellings
from halfline.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(byte_vocab())
OPTIONS = PipelineOptions(
    prefix_tokens=900, fresh_prefix_tokens=150, grown_prefix_tokens=500, postprocess=False
)
BEFORE = "".join(f"    line {n} of it = {n * 7919 % 1000};\n" for n in range(100))
TYPED = "value = another_value + (1, 2);\n    more(value)"
PIECE = 16 + 16 + 1  # what is due, up to a block that was not full, and the token that is always computed

Listen = Callable[[int, Progress], None]

Reading = Literal["never", "in pauses", "without pauses"]


def request(length: int) -> CompletionRequest:
    document = Document(BEFORE + TYPED[:length], "\nrest\n", "a.rs")
    params = SamplingParams(ignore_eos=True)
    return CompletionRequest(id=f"r{length}", prompt=document, params=params, max_tokens=2)


async def typed(reading: Reading) -> list[Completion]:
    executor = HashExecutor(1024)
    engine = EngineHandle(executor, EngineOptions())
    engine.start()
    pipeline = CompletionPipeline(engine, TOKENIZER, executor.spec, OPTIONS)
    found = []
    try:
        for length in range(len(TYPED)):
            found.append(await pipeline.complete(request(length)))
            num_before = engine.stats().total_computed_tokens
            if reading == "in pauses":
                await pipeline.foresight.read_ahead(request(length), Errand())
                assert engine.stats().total_computed_tokens - num_before <= PIECE
            elif reading == "without pauses":
                pipeline.foresight.keep_up(request(length))
    finally:
        await asyncio.to_thread(engine.close, 0.0)
    return found


def missing(completions: list[Completion]) -> list[int]:
    """Tokens that each prompt's own keystroke computed, but for the first's."""
    receipts = [completion.receipt for completion in completions[1:]]
    return [receipt.num_prompt_tokens - receipt.num_reused_tokens for receipt in receipts]


def test_a_window_that_was_read_ahead_costs_a_keystroke_hardly_anything() -> None:
    never, patient = asyncio.run(typed("never")), asyncio.run(typed("in pauses"))
    reasons = [completion.receipt.ledger["anchor"] for completion in patient]
    assert reasons.count("grown") == 1
    assert max(missing(never)) > 250, "nobody had read it"
    assert max(missing(patient)) <= len(TYPED)
    assert [each.choices for each in patient] == [each.choices for each in never]


def test_where_nobody_pauses_it_is_read_beside_the_keystrokes() -> None:
    never, hasty = asyncio.run(typed("never")), asyncio.run(typed("without pauses"))
    assert max(missing(hasty)) <= len(TYPED)
    assert [each.choices for each in hasty] == [each.choices for each in never]


def test_an_errand_that_was_called_off_reads_nothing() -> None:
    async def main() -> None:
        executor = HashExecutor(1024)
        engine = EngineHandle(executor, EngineOptions())
        engine.start()
        pipeline = CompletionPipeline(engine, TOKENIZER, executor.spec, OPTIONS)
        try:
            for length in range(4):
                await pipeline.complete(request(length))
            errand = Errand()
            errand.call_off()
            num_before = engine.stats().total_computed_tokens
            await pipeline.foresight.read_ahead(request(4), errand)
            assert engine.stats().total_computed_tokens == num_before
        finally:
            await asyncio.to_thread(engine.close, 0.0)

    asyncio.run(main())


def test_beside_a_keystroke_little_is_read_and_nothing_while_more_is() -> None:
    submitted: list[int] = []

    class Noting(EngineHandle):
        def submit(self, works: Sequence[Work], listen: Listen | None = None) -> Generation:
            submitted.extend(len(work.prompt_ids) for work in works)
            return super().submit(works, listen)

    async def main() -> None:
        gate = threading.Event()
        engine = Noting(HashExecutor(64, before_run=lambda batch: gate.wait(30)), EngineOptions())
        engine.start()
        works = Works(engine, TOKENIZER, Spellings(TOKENIZER), "model")
        ahead, cursor = ReadAhead(engine, works), Identity("local", "ann", "a.rs")
        try:
            for num_due in (16, 32, 48, 64, 80):
                ahead.due(cursor, range(num_due))
                ahead.keep_up(cursor, request(1))
            assert submitted == [16], "it waits for the first"
            gate.set()
            async with asyncio.timeout(30):
                while len(submitted) < 2:
                    await asyncio.sleep(0.001)
                    ahead.keep_up(cursor, request(1))
            assert submitted == [16, 48], "32 more, although 48 are overdue"
        finally:
            gate.set()
            await asyncio.to_thread(engine.close, 0.0)

    asyncio.run(main())
