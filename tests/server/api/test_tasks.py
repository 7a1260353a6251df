"""Tasks with the embedded model: prompts that are what the whole would be, and heads that are computed once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ByteSize

from halfline.api.task_heads import read_heads
from halfline.api.task_prompts import TaskPrompt, TaskPrompts
from halfline.cli.loading import Ready, assemble
from halfline.cli.model_parts import load_parts
from halfline.context.templates.library import TaskLibrary
from halfline.request import CompletionRequest, Receipt, SamplingParams
from halfline.settings import Settings

CODE = "def total(prices):\n    return sum(prices)\n"


@pytest.fixture(scope="module")
def ready(embedded_model: Path) -> Iterator[Ready]:
    known = Settings(model=str(embedded_model), kv_bytes=ByteSize(64 * 2**20))
    ready = assemble(known, load_parts(known, embedded_model))
    yield ready
    ready.loaded.close()


@pytest.fixture(scope="module")
def prompts(ready: Ready) -> TaskPrompts:
    return TaskPrompts(TaskLibrary(), ready.loaded.chat)


def explained(prompts: TaskPrompts, code: str) -> TaskPrompt:
    template = prompts.template("unit-tests", "1", "local", "")
    return prompts.prompt(template, {"code": code}, 8192)


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=40))
@example("\n\n  x")
@example("'s <|im_end|>")
@example("\r\n\u0301e")
def test_every_built_in_task_has_the_tokens_of_the_whole_conversation(
    ready: Ready, prompts: TaskPrompts, code: str
) -> None:
    chat = ready.loaded.chat
    for task in prompts.library.tasks().values():
        template = task.version("1")
        frame = prompts._frame(template)
        assert frame.token_ids(code) == chat.token_ids(frame.messages(code))
        assert len(frame.head_ids) > 50


def test_the_second_request_of_a_task_computes_what_is_its_own(ready: Ready, prompts: TaskPrompts) -> None:
    async def run(name: str, prompt: TaskPrompt) -> Receipt:
        request = CompletionRequest(
            id=name,
            prompt=prompt.token_ids,
            params=SamplingParams(),
            max_tokens=1,
            num_pinned_tokens=prompt.num_head,
        )
        return (await ready.loaded.pipeline.complete(request)).receipt

    async def main() -> None:
        first, second = explained(prompts, CODE), explained(prompts, "x = 1\n")
        assert (await run("first", first)).num_reused_tokens == 0
        again = await run("second", second)
        assert again.num_reused_tokens >= second.num_head
        assert again.num_computed_tokens == len(second.token_ids) - again.num_reused_tokens

    asyncio.run(main())


def test_the_first_request_of_a_task_that_was_read_ahead_computes_what_is_its_own(
    ready: Ready, prompts: TaskPrompts
) -> None:
    async def main() -> None:
        prompt = prompts.prompt(prompts.template("explain", "1", "local", ""), {"code": CODE}, 8192)
        await read_heads(ready.loaded, ["no such task", "explain"], ["local"])
        request = CompletionRequest(
            id="explain", prompt=prompt.token_ids, params=SamplingParams(), max_tokens=1
        )
        receipt = (await ready.loaded.pipeline.complete(request)).receipt
        assert receipt.num_reused_tokens >= prompt.num_head - 1

    asyncio.run(main())
