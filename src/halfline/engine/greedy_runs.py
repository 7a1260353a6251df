"""Which step goes on by itself: the executor takes several tokens in a row, and Python is asked once (GreedyRun).

That takes a sequence that is alone, since nobody else waits for the step's end, and whose tokens are those of the
largest logits, since nobody looks at any in between. Whoever comes meanwhile stops it within a layer (engine/loop.py).
To all others it looks like a draft of which everything was right.

A run saves some of each token's time, a draft that is right nearly all of it, and within a run nobody guesses; and what
a stop string or a rule cuts off shows only when a run is over. So nothing goes on by itself before many tokens in a row
came of which none was guessed. Most answers in an editor end before that, or never get there (docs/lab_log.md).
"""

from dataclasses import replace

from halfline.engine.options import EngineOptions
from halfline.engine.plan import Chunk
from halfline.engine.sequence import Sequence
from halfline.model.executor import Executor, GreedyDecoder

_UNGUESSED = 8
"""Tokens without a draft before a run. Measured on keystrokes, chats, prose and code."""


class GreedyRuns:
    """Prolongs steps, and keeps count of it. `max_tokens` of a run; 1: there are none."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self.num_tokens = 0
        """Tokens of runs, all that were computed."""
        self.num_beyond = 0
        """Those of them behind the end of their sequence."""

    def prolonged(self, chunk: Chunk) -> Chunk:
        """The only chunk of a step, of the only sequence there is, as far as it may go on and free blocks have room."""
        sequence = chunk.sequence
        wanted = min(self._max_tokens, sequence.num_left)
        if (
            wanted > 1
            and chunk.samples
            and chunk.num_rows == 1
            and sequence.num_unguessed >= _UNGUESSED
            and sequence.work.sampler.takes_the_largest
        ):
            return replace(chunk, run_tokens=_fit(sequence, wanted))
        return chunk

    def ran(self, chunk: Chunk, num_sampled: int, num_kept: int) -> None:
        """The chunk gave so many tokens, of which its sequence took the first `num_kept`."""
        sequence = chunk.sequence
        sequence.num_unguessed = 0 if chunk.draft is not None else sequence.num_unguessed + num_kept
        if chunk.run_tokens > 1:
            self.num_tokens += num_sampled
            self.num_beyond += num_sampled - num_kept


def longest_run(executor: Executor, options: EngineOptions) -> int:
    """How many tokens at most a run may have on this executor; 1 where it does not decode by itself."""
    return options.run_tokens if isinstance(executor, GreedyDecoder) else 1


def _fit(sequence: Sequence, num_tokens: int) -> int:
    """How many tokens from the pending one on have room; that one has."""
    if sequence.table.grow(sequence.num_computed + num_tokens):
        return num_tokens
    return sequence.table.num_places - sequence.num_computed
