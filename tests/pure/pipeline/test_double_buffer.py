import asyncio
import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.pipeline.double_buffer import NUM_SLOTS, DoubleBuffer


async def settle(until: Callable[[], bool]) -> None:
    for _ in range(2000):
        if until():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came to that")


def test_the_next_is_made_while_this_one_is_held_and_a_third_waits() -> None:
    made: list[int] = []

    async def use(buffer: DoubleBuffer, number: int, go: asyncio.Event) -> int:
        async with buffer.prepared(lambda: made.append(number) or number) as content:
            await go.wait()
            return content

    async def main() -> None:
        buffer, go = DoubleBuffer(), asyncio.Event()
        uses = [asyncio.ensure_future(use(buffer, number, go)) for number in range(3)]
        await settle(lambda: len(made) == 2)
        await asyncio.sleep(0.01)
        assert made == [0, 1] and buffer.num_free == 0
        go.set()
        assert await asyncio.gather(*uses) == [0, 1, 2]
        assert buffer.num_free == NUM_SLOTS

    asyncio.run(main())


def test_a_slot_whose_filling_was_given_up_is_free_when_the_filling_ends_and_not_before() -> None:
    async def main() -> None:
        buffer, begun, go = DoubleBuffer(), threading.Event(), threading.Event()

        def slow() -> None:
            begun.set()
            go.wait(5)

        async def use() -> None:
            async with buffer.prepared(slow):
                raise AssertionError("it was given up")

        given_up = asyncio.ensure_future(use())
        await settle(begun.is_set)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert buffer.num_free == NUM_SLOTS - 1
        go.set()
        await settle(lambda: buffer.num_free == NUM_SLOTS)

    asyncio.run(main())


def test_what_making_raises_comes_to_whoever_waits_and_frees_the_slot() -> None:
    async def main() -> None:
        buffer = DoubleBuffer()
        with pytest.raises(ZeroDivisionError):
            async with buffer.prepared(lambda: 1 // 0):
                pass
        with pytest.raises(KeyError):
            async with buffer.prepared(dict):
                raise KeyError
        assert buffer.num_free == NUM_SLOTS

    asyncio.run(main())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=8))
def test_however_requests_end_every_slot_is_free_at_the_end(ends: list[tuple[int, bool]]) -> None:
    """Each is cancelled after some turns of the loop, or not at all; some fail."""

    async def use(buffer: DoubleBuffer, fails: bool) -> None:
        async with buffer.prepared(lambda: 1 // (not fails)):
            await asyncio.sleep(0)

    async def main() -> None:
        buffer = DoubleBuffer()
        uses = []
        for num_turns, fails in ends:
            uses.append(asyncio.ensure_future(use(buffer, fails)))
            for _ in range(num_turns):
                await asyncio.sleep(0)
            if num_turns % 2:
                uses[-1].cancel()
        await asyncio.gather(*uses, return_exceptions=True)
        await settle(lambda: buffer.num_free == NUM_SLOTS)
        async with buffer.prepared(lambda: "still works") as content:
            assert content == "still works"

    asyncio.run(main())
