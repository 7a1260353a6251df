"""Heads of tasks are read as idle work once the model is there, for whom and for what they were asked."""

import asyncio

import pytest

from halfline.api.task_heads import heads_read
from halfline.context.templates.library import TaskLibrary
from halfline.errors import ShuttingDown

pytestmark = pytest.mark.anyio


async def test_what_is_asked_for_is_read_once_the_model_is_there_and_nothing_else(on_stage) -> None:
    up = asyncio.Event()
    beside = heads_read(["explain", "docstring"], lambda: ["one", "two"], up)
    async with on_stage(tasks=TaskLibrary(), beside=[beside]) as stage:
        await asyncio.sleep(0)
        assert stage.pipeline.requests == []
        up.set()
        async with asyncio.timeout(10):
            while len(stage.pipeline.requests) < 4:
                await asyncio.sleep(0.001)
        read = stage.pipeline.requests
    assert [each.tenant for each in read] == ["one", "two", "one", "two"]
    assert {(each.priority, each.max_tokens, each.caching) for each in read} == {("idle", 0, "none")}
    assert all(each.num_pinned_tokens == len(each.prompt) > 50 for each in read)
    assert read[0].prompt == read[1].prompt != read[2].prompt


async def test_what_is_no_task_or_finds_no_room_takes_nothing_with_it(on_stage) -> None:
    up = asyncio.Event()
    beside = heads_read(["none such", "explain", "docstring"], lambda: ["one"], up)
    async with on_stage(tasks=TaskLibrary(), beside=[beside]) as stage:
        stage.pipeline.refusal = ShuttingDown()
        up.set()
        async with asyncio.timeout(10):
            while len(stage.pipeline.requests) < 2:
                await asyncio.sleep(0.001)
        assert (await stage.client.get("/health")).status_code == 200


async def test_an_application_that_ends_before_the_model_is_there_does_not_wait_for_it(on_stage) -> None:
    async with (
        asyncio.timeout(10),
        on_stage(beside=[heads_read(["explain"], lambda: ["one"], asyncio.Event())]),
    ):
        pass
