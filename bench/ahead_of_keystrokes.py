"""How many keystrokes find their answer there, by how much is computed ahead in the pauses between them.

    python -m bench.ahead_of_keystrokes MODEL.gguf TRACE.json.gz [--from N] [--keystrokes N] [--steps N] [--guesses N]

Recorded keystrokes, one after the other, greedy to the line's end or 24 tokens. After each answer `--steps` steps of
the engine may be spent ahead (0: none), so it does not matter how fast the machine is or what else it does: half of a
pause of 150 ms is some twelve steps of the embedded model on two quiet cores. Prints, per keystroke, where the answer
came from, the tokens computed for it, and those computed ahead and used. The last line is JSON.
"""

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from halfline.bench.keystrokes import replay
from halfline.engine.handle import EngineHandle
from halfline.engine.options import EngineOptions
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.pipeline.complete import CompletionPipeline
from halfline.pipeline.foresight import Alternative, Errand, Foresight
from halfline.pipeline.options import PipelineOptions
from halfline.request import CompletionRequest, Document, Identity, SamplingParams
from halfline.text.tokenizer import Tokenizer
from halfline.warmup.ahead import AheadOfKeystrokes
from halfline.warmup.options import WarmupOptions

_NUM_BLOCKS = 2500
_LOOK_S = 0.001


class Stepwise:
    """Foresight that calls each errand off after so many steps of the engine."""

    def __init__(self, foresight: Foresight, engine: EngineHandle, num_steps: int) -> None:
        self._foresight = foresight
        self._engine = engine
        self._num_steps = num_steps
        self.busy = False
        self.compute_s = 0.0  # no budget of time

    async def alternatives(self, request: CompletionRequest, count: int, errand: Errand) -> list[Alternative]:
        self._watch(errand, self._engine.stats().total_steps + self._num_steps)
        return await self._foresight.alternatives(request, count, errand)

    async def read_ahead(self, request: CompletionRequest, errand: Errand) -> None:
        await self._foresight.read_ahead(request, errand)

    def keep_up(self, request: CompletionRequest) -> None:
        self._foresight.keep_up(request)

    async def look_ahead(self, guesses: Sequence[CompletionRequest], most: int, errand: Errand) -> None:
        await self._foresight.look_ahead(guesses, most, errand)
        errand.call_off()

    def _watch(self, errand: Errand, last: int) -> None:
        if self._engine.stats().total_steps >= last:
            errand.call_off()
        elif not errand.called_off:
            asyncio.get_running_loop().call_later(_LOOK_S, self._watch, errand, last)


async def measure(options: argparse.Namespace) -> dict[str, float]:
    with closing(open_checkpoint(options.model)) as checkpoint:
        tokenizer = Tokenizer(checkpoint.vocab)
        executor = NativeExecutor(checkpoint, num_blocks=_NUM_BLOCKS)
    engine = EngineHandle(executor, EngineOptions())
    engine.start()
    pipeline = CompletionPipeline(engine, tokenizer, executor.spec, PipelineOptions())
    ahead = AheadOfKeystrokes(
        pipeline,
        Stepwise(pipeline.foresight, engine, options.steps),
        WarmupOptions(share=0.5 if options.steps else 0.0, max_guesses=options.guesses),
    )
    tiers: Counter[str] = Counter()
    num_computed = 0
    first = range(options.first, options.first + 1)
    for number, keystroke in enumerate(replay(options.trace, first, options.keystrokes)):
        request = CompletionRequest(
            id=str(number),
            prompt=Document(keystroke.prefix, keystroke.suffix, "a.rs"),
            params=SamplingParams(stop=("\n",)),
            max_tokens=24,
            identity=Identity("bench", "ann", "a.rs"),
        )
        receipt = (await ahead.complete(request)).receipt
        tiers[receipt.tier] += 1
        num_computed += receipt.num_computed_tokens
        await ahead.settled()
    await asyncio.to_thread(engine.close, 0.0)
    total = tiers.total()
    per_keystroke = {
        "computed": num_computed,
        "computed_ahead": pipeline.suggestions.num_computed_ahead,
        "used_ahead": pipeline.suggestions.num_used_ahead,
        **tiers,
    }
    return {name: round(count / total, 3) for name, count in per_keystroke.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--from", dest="first", type=int, default=3000, help="the first transaction")
    parser.add_argument("--keystrokes", type=int, default=200)
    parser.add_argument("--steps", type=int, default=12, help="of the engine, ahead of each keystroke")
    parser.add_argument("--guesses", type=int, default=6)
    options = parser.parse_args()
    result = asyncio.run(measure(options))
    for name, value in result.items():
        print(f"{name:15}{value:8.3f}")
    print(json.dumps({"from": options.first, "steps": options.steps, "guesses": options.guesses, **result}))


if __name__ == "__main__":
    main()
