"""What one step will run."""

from dataclasses import dataclass

from halfline.engine.sequence import Sequence
from halfline.sampling.sampler import Scored


@dataclass(frozen=True, slots=True)
class Chunk:
    """Places [start, stop) of one sequence, the first of its pending ones.

    `samples`: it runs the last known token, so the next one can be chosen. `scored_rows`: places whose logits score
    the prompt token behind them.
    """

    sequence: Sequence
    start: int
    stop: int
    samples: bool
    scored_rows: range

    @property
    def num_tokens(self) -> int:
        return self.stop - self.start


def next_chunk(sequence: Sequence, num_tokens: int) -> Chunk:
    """The sequence's next `num_tokens` pending tokens."""
    start = sequence.num_computed
    stop = start + num_tokens
    scored_rows = range(0)
    if sequence.work.prompt_logprobs is not None:
        scored_rows = range(max(start, sequence.num_scored), min(stop, sequence.num_prompt - 1))
    samples = stop == len(sequence.token_ids) and sequence.work.max_new_tokens > 0
    return Chunk(sequence, start, stop, samples, scored_rows)


@dataclass(frozen=True, slots=True)
class Plan:
    """One step; empty when nothing can run."""

    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """What running a chunk gave. `sampled` None: the chunk does not sample, or could not: then `failure` says why."""

    sampled: Scored | None
    prompt_scores: tuple[Scored, ...] = ()
    failure: str | None = None
