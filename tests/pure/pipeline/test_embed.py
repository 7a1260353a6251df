"""A text's vector is the mean of its hidden states, however its computation was cut up and whatever was known."""

import asyncio
from collections.abc import Callable, Coroutine

import numpy as np
import pytest

from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor, hash_logits
from halfline.engine.options import EngineOptions
from halfline.errors import BadRequest, PromptTooLong
from halfline.model.random_model import byte_vocab
from halfline.pipeline.embed import Embedder
from halfline.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(byte_vocab())
TEXT = "The quick brown fox jumps over the lazy dog, and then it does so again."


def serve(
    main: Callable[[Embedder], Coroutine[None, None, None]], *, step_tokens: int, blocks: int = 64
) -> None:
    executor = HashExecutor(blocks)

    async def patient() -> None:
        engine = EngineHandle(executor, EngineOptions(step_tokens=step_tokens, max_num_seqs=8))
        engine.start()
        try:
            async with asyncio.timeout(30):
                await main(Embedder(engine, TOKENIZER, executor.spec))
        finally:
            await asyncio.to_thread(engine.close, 0.0)

    asyncio.run(patient())


def expected(token_ids: list[int]) -> np.ndarray:
    states = [hash_logits(token_ids[: place + 1], 8).astype(np.float64) for place in range(len(token_ids))]
    mean = np.sum(states, axis=0) / len(token_ids)
    return mean / np.linalg.norm(mean)


@pytest.mark.parametrize("step_tokens", [16, 64, 512])
def test_a_vector_is_the_mean_of_all_states_and_has_length_one(step_tokens: int) -> None:
    async def main(embedder: Embedder) -> None:
        token_ids = TOKENIZER.encode(TEXT)
        first = await embedder.embed(TEXT, "local")
        again = await embedder.embed(tuple(token_ids), "local")
        assert first.num_tokens == len(token_ids)
        assert np.allclose(first.vector, expected(token_ids), atol=1e-6)
        assert np.array_equal(first.vector, again.vector), "nothing depends on what was known"

    serve(main, step_tokens=step_tokens)


def test_many_at_once_in_too_few_blocks_are_what_each_is_alone() -> None:
    async def main(embedder: Embedder) -> None:
        texts = [TEXT[start:] for start in range(8)]
        together = await asyncio.gather(*(embedder.embed(text, "local") for text in texts))
        for text, found in zip(texts, together, strict=True):
            assert np.allclose(found.vector, expected(TOKENIZER.encode(text)), atol=1e-6)

    serve(main, step_tokens=32, blocks=12)


def test_what_cannot_be_embedded_is_refused() -> None:
    async def main(embedder: Embedder) -> None:
        for prompt in ((), (10**6,)):
            with pytest.raises(BadRequest, match="input"):
                await embedder.embed(prompt, "local")
        with pytest.raises(
            PromptTooLong, match=r"has 2000 tokens, but may have at most \d+; shorten it"
        ) as long:
            await embedder.embed("x" * 2000, "local")
        assert long.value.field == "input"

    serve(main, step_tokens=32)
