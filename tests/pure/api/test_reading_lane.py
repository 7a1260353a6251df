"""Bodies: small ones are read at once, others in a thread, and only those of a lane wait for each other."""

import asyncio
import threading
import time

import pytest

from halfline.api.reading_lane import ReadingLane
from halfline.context.templates.library import TaskLibrary
from halfline.errors import BadRequest

pytestmark = pytest.mark.anyio


async def test_small_bodies_are_read_at_once_and_large_ones_in_a_thread_one_by_one() -> None:
    lane = ReadingLane(inline_bytes=2)
    running = threading.Semaphore(1)

    def read(body: bytes, context: str) -> tuple[bytes, str, bool]:
        assert running.acquire(blocking=False)
        time.sleep(0.001)
        running.release()
        return body, context, threading.current_thread() is threading.main_thread()

    assert await lane.read(b"ab", read, "x") == (b"ab", "x", True)
    found = await asyncio.gather(*(lane.read(b"abc", read, str(number)) for number in range(5)))
    assert found == [(b"abc", str(number), False) for number in range(5)]


@pytest.mark.parametrize(
    ("path", "slow_part"),
    [("/v1/tasks/explain", "halfline.api.tasks.read_task"), ("/tokenize", "halfline.api.llama.tokenized")],
)
async def test_no_large_body_waits_for_a_task_that_is_rendered_or_for_millions_of_tokens_that_are_counted(
    on_stage, monkeypatch: pytest.MonkeyPatch, path: str, slow_part: str
) -> None:
    begun, done = threading.Event(), threading.Event()

    def slow(*_: object) -> None:
        begun.set()
        assert done.wait(10)
        raise BadRequest("done at last")

    monkeypatch.setattr(slow_part, slow)
    async with on_stage(tasks=TaskLibrary()) as stage:
        asked = asyncio.create_task(stage.client.post(path, json={"content": "x" * 20_000}))
        await asyncio.to_thread(begun.wait, 10)
        reply = await stage.client.post("/v1/completions", json={"prompt": "x" * 100_000, "max_tokens": 1})
        done.set()
        refused = await asked
    assert reply.status_code == 200
    assert (refused.status_code, refused.json()["error"]["message"]) == (400, "done at last")
