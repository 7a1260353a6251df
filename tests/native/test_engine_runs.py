"""The whole engine over the CPU executor: several steps in one call and single ones say the same and leave the same."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from character_work import Characters, ids
from running_engine import running_engine, tokens_of

from halfline.engine.options import EngineOptions
from halfline.engine.sequence import Work
from halfline.model.kv_format import KvFormat
from halfline.model.random_model import random_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.request import SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler
from halfline.sampling.stop import StopStrings

pytestmark = pytest.mark.anyio

PROMPT = tuple(range(37))
COUNT = 50  # over three ends of blocks


def executor_with(kv_format: KvFormat) -> NativeExecutor:
    return NativeExecutor(random_checkpoint(vocab_size=1000), num_blocks=24, kv_format=kv_format)


def options(run_tokens: int) -> EngineOptions:
    return EngineOptions(run_tokens=run_tokens, speculation="off")


def work(
    prompt: Sequence[int], count: int, *, stop: Sequence[str] = (), end_ids: frozenset[int] = frozenset()
) -> Work:
    return Work(
        prompt_ids=tuple(prompt),
        max_new_tokens=count,
        sampler=Sampler(SamplingParams(), prompt),
        reader=Reader(Characters(), [StopStrings(stop)] if stop else []),
        stop_token_ids=end_ids,
        namespace="me",
    )


async def in_turn(executor: NativeExecutor, run_tokens: int, asked: Sequence[Work]) -> list[list[int]]:
    """What each of them is told; who went on by itself computed some tokens in one call."""
    async with running_engine(executor, options(run_tokens)) as engine:
        said = [ids(await tokens_of(engine.submit([each]))) for each in asked]
        assert (engine.stats().total_greedy_run_tokens > 0) == (run_tokens > 1)
    return said


async def test_who_is_alone_is_told_the_same_and_leaves_the_same_kv(kv_format: KvFormat) -> None:
    one, four = executor_with(kv_format), executor_with(kv_format)
    ((*expected,),) = await in_turn(one, 1, [work(PROMPT, COUNT)])
    assert len(set(expected)) > 3
    assert await in_turn(four, 4, [work(PROMPT, COUNT)]) == [expected]
    blocks = range(kv_format.num_blocks(len(PROMPT) + COUNT))
    np.testing.assert_array_equal(four.export_blocks(blocks), one.export_blocks(blocks))


async def test_what_ends_within_a_run_and_what_goes_on_from_there_is_the_same(kv_format: KvFormat) -> None:
    ((*said,),) = await in_turn(executor_with(kv_format), 1, [work(PROMPT, COUNT)])
    # Tokens of a run that has more behind them.
    places = [place for place in range(9, COUNT) if said.index(said[place]) == place and place % 4 != 3]
    assert places

    def asked() -> list[Work]:
        return [
            *(work(PROMPT, COUNT, stop=[chr(said[place])]) for place in places),
            *(work(PROMPT, COUNT, end_ids=frozenset([said[place]])) for place in places),
            *(work([*PROMPT, *said[:place], 3], 20) for place in places),
        ]

    expected = await in_turn(executor_with(kv_format), 1, asked())
    assert await in_turn(executor_with(kv_format), 4, asked()) == expected
    assert [len(each) for each in expected[: len(places)]] == places


async def test_who_comes_and_who_leaves_in_the_middle_changes_nothing(kv_format: KvFormat) -> None:
    others = [range(start, start + 20) for start in range(100, 300, 20)]
    alone = await in_turn(
        executor_with(kv_format), 1, [work(PROMPT, 300), *(work(each, 9) for each in others)]
    )
    async with running_engine(executor_with(kv_format), options(4)) as engine:
        generation = engine.submit([work(PROMPT, 300)])
        first = asyncio.create_task(tokens_of(generation))
        for number, other in enumerate(others):
            await generation.news(len(generation.arrived(0)) + 3)
            told = engine.submit([work(other, 9)])
            if number % 2:
                told.cancel()
                await tokens_of(told)
            else:
                assert ids(await tokens_of(told)) == alone[1 + number]
        assert ids(await first) == alone[0]
        assert engine.stats().total_greedy_run_tokens > 0
        assert engine.stats().num_held_blocks == 0


async def test_prompts_read_a_token_at_a_time_for_nothing_leave_what_the_next_one_reuses(
    kv_format: KvFormat,
) -> None:
    """A step of one row of which nothing is wanted."""
    ((*expected,),) = await in_turn(executor_with(kv_format), 4, [work(PROMPT, COUNT)])
    read = [work(PROMPT[:length], 0) for length in range(1, len(PROMPT))]
    *nothing, said = await in_turn(executor_with(kv_format), 4, [*read, work(PROMPT, COUNT)])
    assert nothing == [[]] * len(read)
    assert said == expected
