"""Whoever waits when the engine breaks, or is called off while it hears of that, is told and forgotten."""

import asyncio
from dataclasses import replace

from character_work import prompt_of
from turn_simulation import work

from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor
from halfline.engine.loop import EngineLoop
from halfline.engine.options import EngineOptions
from halfline.request import FinishReason
from halfline.sampling.reader import Reader

PATIENCE_S = 30.0


class Breaks:
    """A detokenizer that raises what it never should."""

    def push(self, token_id: int) -> str:
        raise RuntimeError("no such character")

    def finish(self) -> str:
        return ""


def test_who_ended_in_the_step_that_broke_the_engine_hears_how_and_the_culprit_that_it_failed() -> None:
    engine = EngineHandle(HashExecutor(64), EngineOptions())
    asked = [work(prompt_of(8, seed=number)) for number in range(3)]
    asked[1] = replace(asked[1], reader=Reader(Breaks()))

    async def reasons() -> dict[int, FinishReason]:
        generation = engine.submit(asked)
        engine.start()
        ended = [(place, each.outcome) async for place, each in generation if each.outcome is not None]
        return {place: outcome.finish_reason for place, outcome in ended}

    try:
        found = asyncio.run(asyncio.wait_for(reasons(), PATIENCE_S))
    finally:
        engine.close(0.0)
    assert found == {0: "length", 1: "failed", 2: "failed"}
    assert isinstance(engine.failure, RuntimeError)


def test_what_the_engine_ended_before_the_canceller_was_done_is_not_remembered_for_ever() -> None:
    loop = EngineLoop(HashExecutor(8), EngineOptions(), lambda: 0.0, lambda progress: None)

    class Prompt:
        """An inbox whose messages are handled while they are put into it."""

        def put(self, message: object) -> None:
            loop._handle(message)  # type: ignore[arg-type]

    loop._inbox = Prompt()  # type: ignore[assignment]
    loop.cancel([1, 2])
    assert not loop._guard._cancelled
