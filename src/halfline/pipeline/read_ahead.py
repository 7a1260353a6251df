"""Has the engine read, piece by piece in pauses, what a document's window will begin with (context/layout.py).

When the window begins there, its KV is there; if no pause was long enough, that keystroke computes it. Either way it
reads the same.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from halfline.engine.handle import EngineHandle, Generation
from halfline.engine.sequence import Work
from halfline.errors import NotNow
from halfline.request import SamplingParams
from halfline.sampling.reader import Reader
from halfline.sampling.sampler import Sampler
from halfline.text.detokenizer import Detokenizer
from halfline.text.tokenizer import Tokenizer

PIECE_TOKENS = 64
"""Read in one pause. A step that a keystroke ends is lost, so it must be short; as many pauses as a plan has time are
enough for 1,100 tokens."""

MAX_PLANS = 64


class ReadAhead:
    """Remembers how far each plan was read. Lives on the event loop."""

    def __init__(self, engine: EngineHandle, tokenizer: Tokenizer) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        # By namespace and plan, the latest in use last.
        self._num_read: OrderedDict[tuple[str, tuple[int, ...]], int] = OrderedDict()

    async def read(
        self, work: Work, planned_ids: tuple[int, ...], carry: Callable[[Generation], None]
    ) -> None:
        """One piece more, as idle work like `work`. Ends early, and quietly, when there is no room for it."""
        key = (work.namespace, planned_ids)
        num_read = self._num_read.get(key, 0)
        if num_read:
            self._num_read.move_to_end(key)
        num_tokens = min(len(planned_ids), num_read + PIECE_TOKENS)
        if num_tokens == num_read:
            return
        piece = replace(
            work,
            prompt_ids=planned_ids[:num_tokens],
            max_new_tokens=0,
            sampler=Sampler(SamplingParams(), ()),
            reader=Reader(Detokenizer(self._tokenizer)),
            forced_ids=(),
            max_forced_tokens=0,
            draft_sources=(),
            priority="idle",
        )
        try:
            generation = self._engine.submit([piece])
        except NotNow:
            return
        carry(generation)
        try:
            async for _ in generation:
                pass
        finally:
            generation.cancel()
        if generation.outcomes[0].finish_reason == "length":
            self._num_read[key] = num_tokens
            if len(self._num_read) > MAX_PLANS:
                self._num_read.popitem(last=False)
