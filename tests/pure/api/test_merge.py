"""Several streams read as one: nothing lost, nothing left open."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from halfline.api.merge import merged

pytestmark = pytest.mark.anyio


class Source:
    """Counts up to `stop`, then ends or raises; remembers whether it was closed."""

    def __init__(self, stop: int, error: Exception | None = None) -> None:
        self.stop = stop
        self.error = error
        self.closed = False

    async def items(self) -> AsyncGenerator[int, None]:
        try:
            for item in range(self.stop):
                await asyncio.sleep(0)
                yield item
            if self.error is not None:
                raise self.error
        finally:
            self.closed = True


@pytest.mark.parametrize("stops", [(3,), (3, 1, 4), (0, 2), (1,) * 20])
async def test_every_item_of_every_stream_arrives_in_its_stream_s_order(stops) -> None:
    sources = [Source(stop) for stop in stops]
    arrivals = [arrival async for arrival in merged([source.items() for source in sources])]
    for position, stop in enumerate(stops):
        assert [item for where, item in arrivals if where == position] == list(range(stop))
    assert all(source.closed for source in sources)


@pytest.mark.parametrize("num_healthy", [0, 1, 3])
async def test_the_first_failure_is_raised_and_closes_the_others(num_healthy) -> None:
    sources = [Source(2, ValueError("broken")), *(Source(10**9) for _ in range(num_healthy))]
    with pytest.raises(ValueError, match="broken"):
        async for _ in merged([source.items() for source in sources]):
            pass
    assert all(source.closed for source in sources)


@pytest.mark.parametrize("num_sources", [1, 3])
async def test_leaving_early_closes_every_stream(num_sources) -> None:
    sources = [Source(10**9) for _ in range(num_sources)]
    stream = merged([source.items() for source in sources])
    for _ in range(5):
        await anext(stream)
    await stream.aclose()
    assert all(source.closed for source in sources)
