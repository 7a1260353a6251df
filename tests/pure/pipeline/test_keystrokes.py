"""A keystroke computes what was typed: hardly a prompt's token is computed that an earlier keystroke computed too."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Iterator

from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.model.executor import Batch
from halfline.model.random_model import byte_vocab
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.options import PipelineOptions
from halfline.request import Completion, CompletionRequest, Document, Identity, Receipt, SamplingParams
from halfline.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(byte_vocab())
OPTIONS = PipelineOptions(prefix_tokens=600, fresh_prefix_tokens=150, postprocess=False, suggestions="off")
WORDS = ("let", "value", "=", "other", "(", "x", ")", ";", "\n", "\n    ", " ", "résumé", "// 日本")


def keystrokes(seed: int, count: int) -> Iterator[tuple[str, int]]:
    """Documents and cursors: typing, taking back, jumps, edits elsewhere."""
    rng = random.Random(seed)
    document = "".join(f"line {n} of it {rng.randrange(10**4)};\n" for n in range(200))
    cursor, typed = len(document), ""
    for _ in range(count):
        if not typed:
            if rng.random() < 0.3:
                cursor = rng.choice((len(document), len(document) // 2, len(document) // 3))
            typed = rng.choice(WORDS)
        if rng.random() < 0.05:
            document, cursor = document[: cursor - 1] + document[cursor:], cursor - 1
        else:
            document, cursor = document[:cursor] + typed[0] + document[cursor:], cursor + 1
            typed = typed[1:]
        yield document, cursor


async def receipts(seed: int, count: int) -> list[Receipt]:
    executor = HashExecutor(1024)
    engine = EngineHandle(executor, EngineOptions())
    engine.start()
    pipeline = CompletionPipeline(engine, TOKENIZER, executor.spec, OPTIONS)
    found = []
    try:
        for number, (document, cursor) in enumerate(keystrokes(seed, count)):
            prompt = Document(document[:cursor], document[cursor:], "a.rs")
            request = CompletionRequest(
                id=f"r{number}", prompt=prompt, params=SamplingParams(ignore_eos=True), max_tokens=2
            )
            found.append((await pipeline.complete(request)).receipt)
    finally:
        await asyncio.to_thread(engine.close, 0.0)
    return found


def test_what_was_read_before_is_not_computed_again() -> None:
    found = asyncio.run(receipts(seed=0, count=400))
    reasons = Counter(str(receipt.ledger["anchor"]) for receipt in found)
    assert reasons["kept"] > 300
    assert reasons["returned"] >= 5
    for receipt in found:
        num_missing = receipt.num_prompt_tokens - receipt.num_reused_tokens
        # The last one is always computed; a character is up to three tokens here.
        assert num_missing <= max(4, int(str(receipt.ledger["expected_tokens"])))
        assert receipt.num_generated_tokens == 2


def test_the_ledger_says_where_the_window_begins_and_why() -> None:
    found = asyncio.run(receipts(seed=1, count=30))
    first, last = found[0].ledger, found[-1].ledger
    assert first["anchor"] == "fresh"
    assert first["expected_tokens"] == first["prefix_tokens"]
    for ledger in (first, last):
        assert {"order", "forced_characters", "suffix_kept", "prefix_characters_left_out"} <= ledger.keys()


def test_a_prompt_that_takes_longer_than_a_keystroke_is_read_all_the_same() -> None:
    """Each step lasts exactly until the next keystroke, and each keystroke ends the one before it."""

    class Slow(HashExecutor):
        def __init__(self) -> None:
            super().__init__(1024, before_run=self._wait)
            self.entered, self.struck = threading.Semaphore(0), threading.Semaphore(0)

        def _wait(self, batch: Batch) -> None:
            self.entered.release()
            assert self.struck.acquire(timeout=30)

    async def main() -> list[Completion]:
        executor = Slow()
        engine = EngineHandle(executor, EngineOptions(step_tokens=32, max_num_seqs=32))
        engine.start()
        pipeline = CompletionPipeline(engine, TOKENIZER, executor.spec, OPTIONS)
        document, running = "".join(f"line {n} of it;\n" for n in range(200)), []
        try:
            for number in range(10):
                document += "x"
                request = CompletionRequest(
                    id=f"r{number}",
                    prompt=Document(document, "", "a.rs"),
                    params=SamplingParams(ignore_eos=True),
                    max_tokens=1,
                    identity=Identity("local", "ann", "a.rs"),
                )
                if running:
                    assert await asyncio.to_thread(executor.entered.acquire, timeout=30)
                running.append(asyncio.create_task(pipeline.complete(request)))
                await asyncio.sleep(0.0)
                if number:
                    executor.struck.release()
            for _ in range(10):
                executor.struck.release()
            return await asyncio.gather(*running)
        finally:
            await asyncio.to_thread(engine.close, 0.0)

    *others, last = asyncio.run(main())
    read = [completion.receipt.num_reused_tokens for completion in others]
    assert read == sorted(read) and read[5] > 100, "what one has read the next need not read"
    assert last.choices[0].finish_reason == "length"
