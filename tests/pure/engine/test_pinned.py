"""What many prompts begin with stays in the engine's memory, and takes no room that one sequence needs."""

import asyncio

import pytest
from character_work import Characters

from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor, hash_logits
from halfline.engine.options import EngineOptions
from halfline.engine.sequence import Outcome, Work
from halfline.request import SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler

BLOCK = 16
CONTEXT = 20 * BLOCK
HEAD = [1] * (4 * BLOCK)


def work(prompt: list[int], num_pinned_tokens: int = 0, max_new_tokens: int = 1) -> Work:
    return Work(
        prompt_ids=tuple(prompt),
        max_new_tokens=max_new_tokens,
        sampler=Sampler(SamplingParams(), prompt),
        reader=Reader(Characters()),
        stop_token_ids=frozenset(),
        namespace="me",
        num_pinned_tokens=num_pinned_tokens,
    )


def outcomes(num_blocks: int, works: list[Work], options: EngineOptions | None = None) -> list[Outcome]:
    """Of one after the other, on an engine of their own; its books are checked at the end."""

    async def main() -> list[Outcome]:
        engine = EngineHandle(
            HashExecutor(num_blocks, max_context=CONTEXT),
            options or EngineOptions(step_tokens=64, max_num_seqs=8),
        )
        engine.start()
        found = []
        try:
            for each in works:
                generation = engine.submit([each])
                async for _ in generation:
                    pass
                found.append(generation.outcomes[0])
        finally:
            await asyncio.to_thread(engine.close, 5.0)
        engine._loop._scheduler.check()
        assert engine.failure is None
        assert engine._loop._pool.num_held == 0  # pins go with the model
        return found

    return asyncio.run(main())


def flood(num_prompts: int = 6) -> list[Work]:
    """Prompts that fill all there is, unlike each other."""
    return [work([100 + number] * (CONTEXT - 1)) for number in range(num_prompts)]


def test_a_pinned_head_is_reused_after_a_flood_and_one_that_is_not_is_gone() -> None:
    for num_pinned, reused in ((len(HEAD), len(HEAD)), (0, 0)):
        works = [work([*HEAD, 2], num_pinned), *flood(), work([*HEAD, 3], num_pinned)]
        found = outcomes(CONTEXT // BLOCK + 5, works)
        assert found[-1].stats.num_reused == reused
        assert found[-1].stats.num_computed == len(HEAD) + 1 - reused


def test_a_sequence_of_full_length_fits_beside_all_that_is_pinned() -> None:
    found = outcomes(
        CONTEXT // BLOCK + 4,
        [
            work([*HEAD, 2], len(HEAD)),
            work([3] * (CONTEXT - 8), max_new_tokens=8),
            work([*HEAD, 4], len(HEAD)),
        ],
    )
    assert [each.finish_reason for each in found] == ["length"] * 3
    assert found[-1].stats.num_reused == len(HEAD)


@pytest.mark.parametrize(
    ("num_blocks", "pinned_tokens"), [(CONTEXT // BLOCK, 4096), (CONTEXT // BLOCK + 9, 0)]
)
def test_where_there_is_nothing_over_or_wanted_nothing_is_pinned(num_blocks: int, pinned_tokens: int) -> None:
    options = EngineOptions(step_tokens=64, max_num_seqs=8, pinned_tokens=pinned_tokens)
    found = outcomes(
        num_blocks, [work([*HEAD, 2], len(HEAD)), *flood(), work([*HEAD, 3], len(HEAD))], options
    )
    assert found[-1].stats.num_reused == 0


def test_what_is_generated_is_the_same_with_and_without_pins() -> None:
    prompt = [*HEAD, 7, 8]
    expected = list(prompt)
    for _ in range(5):
        expected.append(int(hash_logits(expected, 258).argmax()))

    async def tokens() -> list[int]:
        engine = EngineHandle(HashExecutor(40, max_context=CONTEXT), EngineOptions())
        engine.start()
        try:
            found = []
            for each in (work(prompt, len(HEAD), 1), work(prompt, len(HEAD), 5)):
                found = [t.token_id async for _, p in engine.submit([each]) for t in p.piece.tokens]
            return found
        finally:
            await asyncio.to_thread(engine.close, 5.0)

    assert asyncio.run(tokens()) == expected[len(prompt) :]


def test_the_option_says_what_it_cannot_be() -> None:
    with pytest.raises(ValueError, match="pinned_tokens is -1"):
        EngineOptions(pinned_tokens=-1)
