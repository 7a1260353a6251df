"""The next request's context is searched while this one's tokens are computed (A14), seen from the whole pipeline.

Each side waits for the other: were it one after the other, both would wait for ever.
"""

import asyncio
import threading
from collections.abc import Sequence

import pytest
from running_pipeline import TOKENIZER, request, running_pipeline

from halfline.context.documents import DocumentKey
from halfline.context.options import ContextOptions
from halfline.context.sources.found import Found
from halfline.context.surroundings import Surroundings
from halfline.engine.hash_executor import HashExecutor
from halfline.model.executor import Batch
from halfline.request import CompletionRequest, Document, Identity

pytestmark = pytest.mark.anyio

PATIENCE_S = 30.0


class Searching:
    """A source that says which documents it was asked about, and takes until it may end."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []
        self.begun, self.may_end = threading.Semaphore(0), threading.Semaphore(0)

    def find(self, document: Document, key: DocumentKey | None) -> Sequence[Found]:
        self.asked.append(document.path)
        self.begun.release()
        assert self.may_end.acquire(timeout=PATIENCE_S)
        return ()


def surroundings(source: Searching) -> Surroundings:
    return Surroundings(TOKENIZER, 256, ContextOptions(), source)


def typed(path: str, text: str = "x = ") -> CompletionRequest:
    return request(
        Document(text, "", path), id=f"{path}:{text}", max_tokens=2, identity=Identity("local", "ann", path)
    )


async def until(semaphore: threading.Semaphore) -> None:
    assert await asyncio.to_thread(semaphore.acquire, timeout=PATIENCE_S)


async def test_while_one_request_runs_the_next_one_s_context_is_searched() -> None:
    source, running = Searching(), threading.Semaphore(0)

    def waits_for_the_next_search(batch: Batch) -> None:
        running.release()
        if source.asked == ["a.py"]:
            assert source.begun.acquire(timeout=PATIENCE_S)

    executor = HashExecutor(64, before_run=waits_for_the_next_search)
    async with running_pipeline(executor, surroundings=surroundings(source)) as (pipeline, _):
        source.may_end.release()
        first = asyncio.create_task(pipeline.complete(typed("a.py")))
        await until(source.begun)
        await until(running)  # a step of the first, that ends when the second is searched
        second = asyncio.create_task(pipeline.complete(typed("b.py")))
        await first
        assert source.asked == ["a.py", "b.py"] and not second.done()
        source.may_end.release()
        assert (await second).choices


async def test_a_keystroke_in_a_known_document_does_not_wait_for_another_one_s_search() -> None:
    source = Searching()
    async with running_pipeline(surroundings=surroundings(source)) as (pipeline, _):
        source.may_end.release()
        await pipeline.complete(typed("a.py"))
        await until(source.begun)
        searched = asyncio.create_task(pipeline.complete(typed("b.py")))
        await until(source.begun)
        assert (await pipeline.complete(typed("a.py", "x = y"))).choices
        assert not searched.done()
        source.may_end.release()
        await searched


async def test_requests_called_off_while_they_are_searched_or_wait_leave_both_slots_to_the_next() -> None:
    source = Searching()
    async with running_pipeline(surroundings=surroundings(source)) as (pipeline, _):
        tasks = [asyncio.create_task(pipeline.complete(typed(f"{number}.py"))) for number in range(3)]
        await until(source.begun)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        assert source.asked == ["0.py"], "what waited was never begun"
        source.may_end.release(3)
        for path in ("c.py", "d.py"):
            assert (await pipeline.complete(typed(path))).choices
