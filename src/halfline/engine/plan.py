"""What one step will run."""

from dataclasses import dataclass

from halfline.engine.sequence import Sequence
from halfline.engine.speculation.draft import Draft
from halfline.kv.block_table import BlockCopy
from halfline.sampling.sampler import Scored


@dataclass(frozen=True, slots=True)
class Chunk:
    """Places [start, stop) of one sequence, the first of its pending ones.

    `samples`: it runs the last known token, so the next one can be chosen. `scored_rows`: places whose logits score
    the prompt token behind them. `draft`: only where it samples; guesses at the tokens behind `stop`, run as further
    rows. `run_tokens`: so many next tokens the executor may choose by itself, one after the other (GreedyRun).

        pending tokens │ draft
        [t5 t6 t7]     │ [g8 g9 g10]      t7's row gives the real t8; only if that is g8 is g8's row of any worth
    """

    sequence: Sequence
    start: int
    stop: int
    samples: bool
    scored_rows: range
    draft: Draft | None = None
    run_tokens: int = 1

    @property
    def num_tokens(self) -> int:
        return self.stop - self.start

    @property
    def draft_ids(self) -> tuple[int, ...]:
        return () if self.draft is None else self.draft.token_ids

    @property
    def num_rows(self) -> int:
        return self.num_tokens + len(self.draft_ids)


def next_chunk(sequence: Sequence, num_tokens: int, draft: Draft | None = None) -> Chunk:
    """The sequence's next `num_tokens` pending tokens, and a draft of what follows the last of them."""
    start = sequence.num_computed
    stop = start + num_tokens
    scored_rows = range(0)
    if sequence.work.prompt_logprobs is not None:
        scored_rows = range(max(start, sequence.num_scored), min(stop, sequence.num_prompt - 1))
    samples = stop == len(sequence.token_ids) and sequence.work.max_new_tokens > 0
    return Chunk(sequence, start, stop, samples, scored_rows, draft)


@dataclass(frozen=True, slots=True)
class Plan:
    """One step; empty when nothing can run. `planned_at` is the clock's time, in seconds.

    `yields`: nobody waits for anything in it, so it is stopped and forgotten when somebody comes.
    """

    chunks: tuple[Chunk, ...]
    planned_at: float
    yields: bool = False

    @property
    def copies(self) -> list[BlockCopy]:
        """What has to be copied before the chunks run."""
        copies = (chunk.sequence.table.copy for chunk in self.chunks)
        return [copy for copy in copies if copy is not None]

    @property
    def outlasts(self) -> bool:
        """Whether it is of use even if all in it is cancelled."""
        return not self.yields and any(
            chunk.num_tokens > 1 and chunk.sequence.work.begins_the_next for chunk in self.chunks
        )

    @property
    def goes_on(self) -> bool:
        """Whether it takes more than one step of the executor, and can be stopped with what it has by then."""
        return any(chunk.run_tokens > 1 for chunk in self.chunks)

    @property
    def num_rows(self) -> int:
        return sum(chunk.num_rows for chunk in self.chunks)

    @property
    def mean_place(self) -> float:
        """Places before a row, on average. Only for a plan with chunks."""
        return (
            sum(chunk.num_rows * (chunk.start + chunk.num_rows / 2) for chunk in self.chunks) / self.num_rows
        )


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """What running a chunk gave.

    `sampled` are the sequence's next tokens: the first, and one more behind each draft token that was right, or all of
    a greedy run. Those behind the sequence's end do not count. `failure` says why there are no more, or none.
    """

    sampled: tuple[Scored, ...]
    prompt_scores: tuple[Scored, ...] = ()
    failure: str | None = None
