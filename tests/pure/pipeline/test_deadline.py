"""What is answered when the time is up, and what becomes of the rest. Nobody looks at a clock here."""

import asyncio
import itertools
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor
from halfline.engine.options import EngineOptions
from halfline.model.executor import Batch, Outputs
from halfline.model.random_model import EOS_ID, byte_vocab
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.deadline import WholeLines
from halfline.pipeline.options import PipelineOptions
from halfline.request import (
    Choice,
    ChoiceDelta,
    CompletionRequest,
    Document,
    Identity,
    SamplingParams,
)
from halfline.sampling.reader import NOTHING, Piece
from halfline.sampling.sampler import Scored
from halfline.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(byte_vocab())
PATIENCE_S = 60.0


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


class Script(HashExecutor):
    """Says the script behind whatever prompt ends with ":", and stops at the step before `stops_at` tokens of it are
    known, until it is let go on.
    """

    def __init__(self, script: str, stops_at: int) -> None:
        super().__init__(64)
        self._script = [*script.encode(), EOS_ID]
        self._stops_at = stops_at
        self._reached, self._goes_on = threading.Event(), threading.Event()
        self.rows: list[int] = []

    def run(self, batch: Batch) -> Outputs | None:
        known = self._known(batch)
        if known == self._stops_at and not self._goes_on.is_set():
            self._reached.set()
            assert self._goes_on.wait(PATIENCE_S)
        outputs = super().run(batch)
        if outputs is None:
            return None
        self.rows.append(len(batch.token_ids))
        outputs.logits[:] = -1.0
        outputs.logits[:, self._script[known]] = 1.0
        return replace(outputs, top=None)

    def _known(self, batch: Batch) -> int:
        """Tokens of the script behind the last ":" of the only sequence."""
        self._write(batch, batch.token_ids)
        tokens = self._read(batch, len(batch.token_ids) - 1)
        return len(tokens) - 1 - int(np.flatnonzero(np.array(tokens) == ord(":"))[0])

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, PATIENCE_S)

    def go_on(self) -> None:
        self._goes_on.set()


class World:
    def __init__(self, script: str, stops_at: int, **options: Any) -> None:
        self.executor = Script(script, stops_at)
        self.alarms = Alarms()
        self.now = 0.0
        self.engine = EngineHandle(
            self.executor, EngineOptions(step_tokens=64, max_num_seqs=16, speculation="off")
        )
        self.pipeline = CompletionPipeline(
            self.engine,
            TOKENIZER,
            self.executor.spec,
            PipelineOptions(**options),
            lambda: self.now,
            self.alarms,
        )

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        self.engine.start()
        try:
            yield
        finally:
            self.executor.go_on()
            await asyncio.to_thread(self.engine.close, 0.0)

    async def late(self, asked: CompletionRequest) -> Choice:
        """The answer at a deadline that comes when the script is as far as it is to go."""
        task = asyncio.create_task(self.pipeline.complete(asked))
        await self.executor.reached()
        await turns()
        self.alarms.set[-1][1]()
        return (await task).choices[0]


async def turns(count: int = 30) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def at_cursor(number: int = 1, **changes: Any) -> CompletionRequest:
    base = CompletionRequest(
        id=f"r{number}",
        prompt=Document("x:", "", "a.py"),
        params=SamplingParams(),
        max_tokens=40,
        deadline_ms=100,
        identity=Identity("local", "ann", "a.py"),
        postprocess=False,
    )
    return replace(base, **changes)


def run(world: World, main: Callable[[], Coroutine[None, None, None]]) -> None:
    async def patient() -> None:
        async with asyncio.timeout(PATIENCE_S), world.running():
            await main()

    asyncio.run(patient())


LINES = "one(a)\n  two(b)\nthree"
NUM_GENERATED = 1 + len(LINES) + 1
"""The word before the cursor, which is ":", the lines, and the end."""


@pytest.mark.parametrize(
    ("stops_at", "text"),
    [(0, ""), (4, "one("), (6, "one(a)"), (7, "one(a)"), (10, "one(a)"), (18, "one(a)\n  two(b)")],
)
def test_at_its_deadline_an_answer_ends_with_its_last_whole_line_or_with_what_there_is(
    stops_at: int, text: str
) -> None:
    world = World(LINES, stops_at)

    async def main() -> None:
        choice = await world.late(at_cursor())
        assert (choice.text, choice.finish_reason) == (text, "deadline")
        assert choice.token_ids == tuple(text.encode())
        receipt = world.pipeline.receipt("r1")
        assert receipt is not None
        assert receipt.finish_reasons == ("deadline",)

    run(world, main)


@pytest.mark.parametrize("num_asked", [1, 2])
@pytest.mark.parametrize("streamed", [False, True])
def test_what_was_computed_until_the_deadline_is_in_the_receipt_of_whoever_left_last(
    num_asked: int, streamed: bool
) -> None:
    world = World(LINES, 10)

    async def main() -> None:
        async def ask(number: int) -> None:
            asked = at_cursor(number, identity=None)
            if streamed:
                async for _ in world.pipeline.stream(asked):
                    pass
            else:
                await world.pipeline.complete(asked)

        tasks = [asyncio.create_task(ask(number)) for number in range(1, num_asked + 1)]
        await world.executor.reached()
        await turns()
        world.now = 1e3  # of which what was waited for is a part
        for (_, ring), task in zip(world.alarms.set, tasks, strict=True):
            ring()
            await task
        last = f"r{num_asked}"
        early = world.pipeline.receipt(last)
        assert early is not None
        assert (early.finish_reasons, early.num_generated_tokens) == (("deadline",), 10)
        world.executor.go_on()
        receipt = await world.pipeline.final_receipt(last)
        assert receipt is not None and receipt == world.pipeline.receipt(last)
        assert (receipt.finish_reasons, receipt.coalesced_with) == (("deadline",), None)
        assert receipt.num_computed_tokens == receipt.num_prompt_tokens + 10
        assert (receipt.num_generated_tokens, receipt.num_unshown_tokens) == (10, 0)
        assert receipt.prefill_ms > 0 and receipt.decode_ms > 0
        first = world.pipeline.receipt("r1")
        assert first is not None
        if num_asked == 2:
            assert (first.finish_reasons, first.coalesced_with) == (("deadline",), "r2")
            assert (first.num_computed_tokens, first.num_generated_tokens) == (0, 10)

    run(world, main)


def test_a_raw_prompts_answer_is_all_there_is() -> None:
    world = World(LINES, 10)

    async def main() -> None:
        assert (await world.late(at_cursor(prompt="x:", identity=None))).text == LINES[:10]

    run(world, main)


def test_a_stream_ends_where_it_is() -> None:
    world = World(LINES, 10)

    async def main() -> None:
        deltas: list[ChoiceDelta] = []

        async def listen() -> None:
            async for delta in world.pipeline.stream(at_cursor()):
                deltas.append(delta)

        task = asyncio.create_task(listen())
        await world.executor.reached()
        await turns()
        world.alarms.set[-1][1]()
        await task
        assert "".join(delta.text for delta in deltas) == LINES[:10]
        assert deltas[-1].finish_reason == "deadline"

    run(world, main)


def test_the_rest_is_computed_as_idle_work_and_known_when_somebody_asks_again() -> None:
    world = World(LINES, 10)

    async def main() -> None:
        await world.late(at_cursor())
        world.executor.go_on()
        while world.engine.stats().total_generated_tokens < NUM_GENERATED:
            await asyncio.sleep(0)
        await turns()
        world.executor.rows.clear()
        again = await world.pipeline.complete(at_cursor(2, prompt=Document("x:" + LINES[:3], "", "a.py")))
        assert (again.choices[0].text, again.receipt.tier) == (LINES[3:], "typed")
        assert world.executor.rows == []

    run(world, main)


@pytest.mark.parametrize("options", [{"suggestions": "off"}, {}])
def test_where_nobody_could_use_the_rest_it_is_not_computed(options: dict[str, Any]) -> None:
    world = World(LINES, 10, **options)
    sampled = SamplingParams() if options else SamplingParams(temperature=0.5, seed=1)

    async def main() -> None:
        await world.late(at_cursor(params=sampled))
        world.executor.go_on()
        other = CompletionRequest(
            id="other", prompt="y:", params=SamplingParams(logprobs=0), max_tokens=1, tenant="other"
        )
        await world.pipeline.complete(other)  # what was asked of the engine before has had its turn
        assert world.engine.stats().total_generated_tokens == 1 + 10 + 1

    run(world, main)


def test_the_next_keystroke_takes_the_late_work_over() -> None:
    world = World(LINES, 10)

    async def main() -> None:
        await world.late(at_cursor())
        newer = asyncio.create_task(
            world.pipeline.complete(at_cursor(2, prompt=Document("x:o", "", "a.py"), deadline_ms=None))
        )
        await turns()
        world.executor.go_on()
        answer = await newer
        assert (answer.choices[0].text, answer.receipt.tier) == (LINES[1:], "continued")
        assert world.engine.stats().total_generated_tokens == NUM_GENERATED, "nothing twice"

    run(world, main)


def test_an_answer_in_time_calls_its_alarm_off_and_is_whole() -> None:
    world = World(LINES, 1000, deadline_ms=70)

    async def main() -> None:
        answer = await world.pipeline.complete(at_cursor(deadline_ms=None))
        assert (answer.choices[0].text, answer.choices[0].finish_reason) == (LINES, "stop")
        await world.pipeline.complete(at_cursor(2, deadline_ms=30))
        assert [seconds for seconds, _ in world.alarms.set] == [0.07, 0.03], "the request's own comes first"
        assert world.alarms.num_cancelled == 2

    run(world, main)


def test_without_a_deadline_there_is_no_alarm() -> None:
    world = World(LINES, 1000)

    async def main() -> None:
        await world.pipeline.complete(at_cursor(deadline_ms=None))
        assert world.alarms.set == []

    run(world, main)


def pieces(text: str, cuts: list[int]) -> list[Piece]:
    """The text, a character a token, in pieces."""
    bounds = [0, *sorted(cuts), len(text)]
    return [
        Piece(text[a:b], tuple(Scored(ord(each)) for each in text[a:b]), tuple(range(a, b)))
        for a, b in itertools.pairwise(bounds)
    ]


@given(st.text("ab \n", max_size=30), st.lists(st.integers(0, 30), max_size=5), st.booleans())
def test_whole_lines_are_the_same_however_the_text_was_cut(text: str, cuts: list[int], late: bool) -> None:
    lines = WholeLines()
    shown = NOTHING
    for piece in pieces(text, [min(cut, len(text)) for cut in cuts]):
        shown += lines.push(piece)
    shown += lines.finish(late=late)
    whole, _, _ = text.rpartition("\n")
    expected = whole if late and whole.strip() else text
    assert shown.text == expected
    assert "".join(chr(token.token_id) for token in shown.tokens) == expected
    assert shown.starts == tuple(range(len(expected)))
