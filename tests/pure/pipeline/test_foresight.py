"""Looking ahead: what may come next, and that no keystroke waits for it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import numpy as np

from halfline.engine.handle import EngineHandle
from halfline.engine.hash_executor import HashExecutor, hash_logits
from halfline.engine.options import EngineOptions
from halfline.model.executor import Batch, Outputs
from halfline.model.random_model import byte_vocab
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.foresight import Errand
from halfline.pipeline.options import PipelineOptions
from halfline.request import CompletionRequest, Document, Identity, SamplingParams
from halfline.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(byte_vocab())
PATIENCE_S = 60.0
NUM_LAYERS = 30


class Layered(HashExecutor):
    """Looks at its stop flag between layers, as the real one does. `before_layer` is told step and layer."""

    def __init__(self) -> None:
        super().__init__(128)
        self.before_layer: Callable[[int, int], None] = lambda step, layer: None
        self.layers: list[int] = []  # of each step, how many were run
        self.rows: list[int] = []

    def run(self, batch: Batch) -> Outputs | None:
        step = len(self.layers)
        self.layers.append(0)
        self.rows.append(len(batch.token_ids))
        for layer in range(NUM_LAYERS):
            self.before_layer(step, layer)
            if self.stop_flag.is_set():
                break
            self.layers[-1] += 1
        outputs = super().run(batch)
        if outputs is not None:
            outputs.logits[:, ord("a") : ord("z")] += 4.0
        return None if outputs is None else replace(outputs, top=None)


def run(
    main: Callable[[CompletionPipeline, EngineHandle, Layered], Awaitable[None]],
    options: PipelineOptions | None = None,
) -> None:
    async def patient() -> None:
        executor = Layered()
        engine = EngineHandle(executor, EngineOptions(step_tokens=64, max_num_seqs=16, speculation="off"))
        engine.start()
        pipeline = CompletionPipeline(engine, TOKENIZER, executor.spec, options or PipelineOptions())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await main(pipeline, engine, executor)
        finally:
            await asyncio.to_thread(engine.close, 0.0)

    asyncio.run(patient())


def at_cursor(number: int, prefix: str) -> CompletionRequest:
    return CompletionRequest(
        id=f"r{number}",
        prompt=Document(prefix, "", "a.py"),
        params=SamplingParams(ignore_eos=True),
        max_tokens=8,
        identity=Identity("local", "ann", "a.py"),
        postprocess=False,
    )


def test_alternatives_are_the_likeliest_next_characters_and_cost_one_step() -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle, executor: Layered) -> None:
        prefix = "def "
        await pipeline.complete(at_cursor(1, prefix))
        executor.rows.clear()
        found = await pipeline.foresight.alternatives(at_cursor(2, prefix), 5, Errand())
        logits = hash_logits(list(prefix.encode()), executor.spec.vocab_size)
        logits[ord("a") : ord("z")] += 4.0
        best = np.argsort(-logits, kind="stable")[:5]
        assert [each.text for each in found] == [chr(i) for i in best]
        chances = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        assert np.allclose([each.probability for each in found], chances[best], rtol=1e-4)
        # The word may go on, or end as it stands: two places. With a byte a token it never goes on.
        assert executor.rows == [2]

    run(main)


def test_an_errand_that_is_called_off_ends_and_what_it_computed_stays_known() -> None:
    async def main(pipeline: CompletionPipeline, engine: EngineHandle, executor: Layered) -> None:
        errand = Errand()
        reached, goes_on = threading.Event(), threading.Event()

        def hold_the_sixth_step(step: int, layer: int) -> None:
            if step == 5 and layer == 3:
                reached.set()
                assert goes_on.wait(PATIENCE_S)

        executor.before_layer = hold_the_sixth_step
        looking = asyncio.create_task(
            pipeline.foresight.look_ahead([at_cursor(1, "x "), at_cursor(2, "y ")], 2, errand)
        )
        assert await asyncio.to_thread(reached.wait, PATIENCE_S)
        errand.call_off()
        goes_on.set()
        await looking
        assert executor.layers[5] == 3
        assert pipeline.suggestions.num_computed_ahead == 2 * 6
        answer = await pipeline.complete(at_cursor(3, "x "))
        assert (answer.receipt.tier, answer.receipt.num_known_tokens) == ("continued", 5)
        assert await pipeline.foresight.alternatives(at_cursor(4, "x "), 3, errand) == []

    run(main)


def test_a_keystroke_waits_for_no_more_than_the_layer_that_runs() -> None:
    """Whatever runs is idle: it gives up before its next layer, and the next step is the keystroke's alone."""

    async def main(pipeline: CompletionPipeline, engine: EngineHandle, executor: Layered) -> None:
        event_loop = asyncio.get_running_loop()
        keystrokes: list[asyncio.Task[object]] = []
        entered = threading.Event()
        steps: list[int] = []

        def type_in_the_middle(step: int, layer: int) -> None:
            only_guesses = executor.rows[step] == 3
            if only_guesses and len(steps) < 4 and layer == 7 + len(steps) and step > max(steps, default=0):
                steps.append(step)
                entered.clear()
                event_loop.call_soon_threadsafe(strike)
                assert entered.wait(PATIENCE_S)

        def strike() -> None:
            request = replace(at_cursor(10 + len(keystrokes), f"{len(keystrokes)} "), identity=None)
            keystrokes.append(asyncio.create_task(pipeline.complete(request)))
            event_loop.call_soon(event_loop.call_soon, event_loop.call_soon, entered.set)

        executor.before_layer = type_in_the_middle
        guesses = [replace(at_cursor(n, f"guess {n} "), max_tokens=60) for n in range(3)]
        await pipeline.foresight.look_ahead(guesses, 3, Errand())
        assert len(keystrokes) == 4
        for number, step in enumerate(steps):
            assert executor.layers[step] == 7 + number, "the layer that ran was the last"
            assert executor.rows[step + 1] <= 2, "the keystroke's own rows, no guess's"
        await asyncio.gather(*keystrokes)

    run(main)


def test_guesses_teach_nothing_to_the_document_that_they_are_guesses_at() -> None:
    """A window is exchanged after so many keystrokes, and no guess is one."""
    typed = "".join(f"line {n}\n" for n in range(40))
    sizes = PipelineOptions(prefix_tokens=256, fresh_prefix_tokens=64, grown_prefix_tokens=96)
    windows: dict[bool, list[tuple[object, object]]] = {}

    async def main(
        guesses: bool, pipeline: CompletionPipeline, engine: EngineHandle, executor: Layered
    ) -> None:
        windows[guesses] = found = []
        for number in range(12):
            asked = at_cursor(number, typed[: 200 + number])
            ledger = (await pipeline.complete(asked)).receipt.ledger
            found.append((ledger["anchor"], ledger["prefix_characters_left_out"]))
            if guesses:
                await pipeline.foresight.alternatives(asked, 3, Errand())
                prefixes = [typed[: 201 + number], typed[: 300 + number], typed[:100]]
                nexts = [at_cursor(100 + number, prefix) for prefix in prefixes]
                await pipeline.foresight.look_ahead(nexts, 3, Errand())

    for guesses in (False, True):
        run(partial(main, guesses), sizes)
    assert windows[True] == windows[False]
    assert "grown" in {anchor for anchor, _ in windows[False]}
