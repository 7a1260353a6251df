"""When it is computed ahead, what, and what ends it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from halfline.errors import EngineFailed
from halfline.pipeline.foresight import Alternative, Errand
from halfline.request import (
    Choice,
    ChoiceDelta,
    Completion,
    CompletionRequest,
    Document,
    FinishReason,
    Identity,
    Priority,
    Receipt,
    SamplingParams,
)
from halfline.warmup.ahead import AheadOfKeystrokes
from halfline.warmup.options import WarmupOptions


@dataclass
class Echo:
    """A pipeline that answers at once."""

    text: str = "foo()"
    reason: FinishReason = "stop"

    async def stream(self, request: CompletionRequest) -> AsyncGenerator[ChoiceDelta, None]:
        yield ChoiceDelta(0, self.text[:1])
        yield ChoiceDelta(0, self.text[1:], finish_reason=self.reason)

    async def complete(self, request: CompletionRequest) -> Completion:
        return Completion(request.id, (Choice(0, self.text, (), self.reason),), receipt(request.id))

    def cancel(self, request_id: str, tenant: str) -> bool:
        return request_id == "running"

    def receipt(self, request_id: str) -> Receipt | None:
        return receipt(request_id)

    async def final_receipt(self, request_id: str) -> Receipt | None:
        return self.receipt(request_id)


def receipt(request_id: str) -> Receipt:
    return Receipt(
        request_id=request_id,
        num_prompt_tokens=1,
        num_reused_tokens=0,
        num_computed_tokens=1,
        num_generated_tokens=1,
        queue_ms=0.0,
        prefill_ms=0.0,
        decode_ms=0.0,
        total_ms=0.0,
        finish_reasons=("stop",),
    )


@dataclass
class Seer:
    """Notes what it is asked. `blocks`: until it is called off."""

    busy: bool = False
    compute_s: float = 0.0
    blocks: bool = False
    failure: Exception | None = None
    asked: list[str] = field(default_factory=list)
    guesses: list[CompletionRequest] = field(default_factory=list)
    errands: list[Errand] = field(default_factory=list)

    async def alternatives(self, request: CompletionRequest, count: int, errand: Errand) -> list[Alternative]:
        if self.failure is not None:
            raise self.failure
        assert isinstance(request.prompt, Document)
        self.asked.append(request.prompt.prefix)
        return [
            Alternative("fo", 0.5),
            Alternative("bar", 0.3),
            Alternative("f", 0.1),
            Alternative("z", 0.01),
        ]

    async def read_ahead(self, request: CompletionRequest, errand: Errand) -> None:
        """Nothing is planned."""

    def keep_up(self, request: CompletionRequest) -> None:
        """Nothing was due."""

    async def look_ahead(self, guesses: Sequence[CompletionRequest], most: int, errand: Errand) -> None:
        self.guesses += guesses
        self.errands.append(errand)
        while self.blocks and not errand.called_off:
            await asyncio.sleep(0)


class Alarms:
    """Ring when they are told to."""

    def __init__(self) -> None:
        self.set: list[tuple[float, Callable[[], None]]] = []
        self.num_cancelled = 0

    def __call__(self, seconds: float, ring: Callable[[], None]) -> "Alarms":
        self.set.append((seconds, ring))
        return self

    def cancel(self) -> None:
        self.num_cancelled += 1


class World:
    def __init__(self, **options: Any) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.echo, self.seer, self.alarms = Echo(), Seer(), Alarms()
        self.ahead = AheadOfKeystrokes(
            self.echo, self.seer, WarmupOptions(**options), lambda: self.now, self.sleep, self.alarms
        )

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    async def type(self, prefix: str, after_s: float = 0.15, **changes: Any) -> None:
        self.now += after_s
        await self.ahead.complete(keystroke(prefix, **changes))


def keystroke(
    prefix: str, user: str = "ann", priority: Priority = "interactive", **changes: Any
) -> CompletionRequest:
    return CompletionRequest(
        id="r",
        prompt=Document(prefix, "", "a.py"),
        params=SamplingParams(),
        max_tokens=24,
        identity=Identity("local", user, "a.py"),
        priority=priority,
        **changes,
    )


def run(main: Coroutine[None, None, None]) -> None:
    async def patient() -> None:
        async with asyncio.timeout(30.0):
            await main

    asyncio.run(patient())


def prefixes(world: World) -> list[str]:
    return [each.prompt.prefix for each in world.seer.guesses if isinstance(each.prompt, Document)]


def test_after_an_answer_the_next_keystrokes_are_guessed_the_likeliest_first() -> None:
    async def main() -> None:
        world = World()
        await world.type("x = ")
        assert world.seer.asked == [], "the reply goes out first"
        await world.ahead.settled()
        assert world.seer.asked == ["x = "]
        assert prefixes(world) == ["x = f", "x = b", "x = \n", "x = foo()", "x ="]
        assert {each.max_tokens for each in world.seer.guesses} == {24}

    run(main())


def test_an_answer_that_was_cut_at_its_limit_is_made_longer_before_anything_else() -> None:
    async def main() -> None:
        world = World()
        world.echo.reason = "length"
        await world.type("x = ")
        await world.ahead.settled()
        assert world.seer.guesses[0].max_tokens == 24 + 8
        assert prefixes(world)[0] == "x = "

    run(main())


@pytest.mark.parametrize("streamed", [False, True])
def test_the_next_request_of_the_same_cursor_ends_it_before_it_is_passed_on(streamed: bool) -> None:
    async def main() -> None:
        world = World()
        world.seer.blocks = True
        if streamed:
            assert len([each async for each in world.ahead.stream(keystroke("x"))]) == 2
        else:
            await world.type("x")
        while not world.seer.errands:
            await asyncio.sleep(0)
        errand = world.seer.errands[0]
        await world.type("other", user="bob")
        await world.type("guess", priority="idle")
        assert not errand.called_off
        async for _ in world.ahead.stream(keystroke("xy")):
            assert errand.called_off
        world.seer.blocks = False
        await world.ahead.settled()

    run(main())


def test_it_ends_when_its_share_of_a_usual_pause_is_spent() -> None:
    async def main() -> None:
        world = World(share=0.5)
        world.seer.blocks = True
        for number in range(40):
            await world.type("x" * number, after_s=0.4)
        while not world.seer.errands:
            await asyncio.sleep(0)
        seconds, ring = world.alarms.set[-1]
        assert seconds == pytest.approx(0.2, rel=0.01)
        errand = world.seer.errands[-1]
        world.seer.compute_s = 0.15
        ring()
        assert not errand.called_off, "the machine had other things to do as well"
        seconds, ring = world.alarms.set[-1]
        assert seconds == pytest.approx(0.05, rel=0.05)
        world.seer.compute_s = 0.2
        ring()
        assert errand.called_off
        await world.ahead.settled()

    run(main())


def test_whoever_thinks_for_an_hour_costs_no_more_than_half_a_second() -> None:
    async def main() -> None:
        world = World(share=0.5)
        for number in range(60):
            await world.type("x" * number, after_s=3600.0)
            await world.ahead.settled()
        assert max(seconds for seconds, _ in world.alarms.set) <= 0.5

    run(main())


def test_while_somebody_waits_for_an_answer_the_document_has_to_be_quiet_first() -> None:
    async def main() -> None:
        world = World(pause_ms=70.0)
        world.seer.busy = True
        await world.type("x")
        while len(world.slept) < 4:
            await asyncio.sleep(0)
        assert world.seer.asked == []
        assert world.slept[1:4] == [0.07] * 3
        world.seer.busy = False
        await world.ahead.settled()
        assert world.seer.asked == ["x"]

    run(main())


@pytest.mark.parametrize("reason", ["cancelled", "superseded", "deadline", "failed"])
def test_nothing_is_computed_ahead_of_an_answer_that_nobody_got(reason: FinishReason) -> None:
    async def main() -> None:
        world = World()
        world.echo.reason = reason
        await world.type("x")
        await world.ahead.settled()
        assert world.seer.asked == []

    run(main())


def test_raw_prompts_other_priorities_and_a_share_of_nothing_leave_it_off() -> None:
    async def main() -> None:
        world, off = World(), World(share=0.0)
        raw = CompletionRequest(id="r", prompt="x", params=SamplingParams(), max_tokens=4)
        await world.ahead.complete(raw)
        await world.type("x", priority="batch")
        await off.type("x")
        for each in (world, off):
            await each.ahead.settled()
            assert each.seer.asked == []

    run(main())


@pytest.mark.parametrize("changes", [{"num_choices": 2}, {"echo": True}])
@pytest.mark.parametrize("streamed", [False, True])
def test_answers_of_which_nobody_knows_what_will_be_typed_are_not_looked_behind(
    changes: dict[str, Any], streamed: bool
) -> None:
    async def main() -> None:
        world = World()
        if streamed:
            assert len([each async for each in world.ahead.stream(keystroke("x", **changes))]) == 2
        else:
            await world.type("x", **changes)
        await world.ahead.settled()
        assert world.seer.asked == []

    run(main())


def test_a_raw_prompt_ends_nothing_that_is_computed_ahead() -> None:
    async def main() -> None:
        world = World()
        world.seer.blocks = True
        await world.ahead.complete(replace(keystroke("x"), prompt=Document("x", ""), identity=None))
        while not world.seer.errands:
            await asyncio.sleep(0)
        await world.ahead.complete(replace(keystroke("x"), prompt="x", identity=None))
        assert not world.seer.errands[0].called_off
        world.seer.blocks = False
        await world.ahead.settled()

    run(main())


def test_an_engine_that_fails_meanwhile_harms_nobody() -> None:
    async def main() -> None:
        world = World()
        world.seer.failure = EngineFailed(RuntimeError("broken"))
        await world.type("x")
        await world.ahead.settled()
        assert world.seer.guesses == []

    run(main())


def test_cancelling_and_receipts_are_the_pipelines() -> None:
    world = World()
    assert world.ahead.cancel("running", "local")
    assert not world.ahead.cancel("other", "local")
    assert world.ahead.receipt("r7") == receipt("r7")
