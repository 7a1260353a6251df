"""Reads tokens that are known as if the engine had just sampled them (engine/scheduler.py)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from halfline.engine.sequence import Outcome, SequenceStats, Work
from halfline.request import FinishReason
from halfline.sampling.reader import NOTHING, Piece
from halfline.sampling.sampler import Scored


@dataclass(frozen=True, slots=True)
class Known:
    """What can be shown of known tokens: a whole answer where there is a `finish_reason`."""

    tokens: Sequence[Scored]
    piece: Piece
    finish_reason: FinishReason | None


def read_known(work: Work, tokens: Iterable[Scored]) -> Known:
    """Through the work's own sampler and reader, up to where the answer ends or no more is known."""
    reader = work.reader
    piece, read = NOTHING, []
    for token in tokens:
        read.append(token)
        work.sampler.follow(token.token_id)
        if token.token_id in work.stop_token_ids and not reader.forcing:
            return Known(read, piece + reader.finish(), "stop")
        piece += reader.push(token)
        if reader.stopped:
            return Known(read, piece, "stop")
        if len(read) - reader.num_forced == work.max_new_tokens:
            return Known(read, piece + reader.finish(), "length")
    return Known(read, piece, None)


def known_outcome(finish_reason: FinishReason, num_prompt: int, num_generated: int) -> Outcome:
    """Of an answer for which nothing was computed."""
    stats = SequenceStats(
        num_reused=num_prompt,
        num_computed=0,
        num_generated=num_generated,
        queue_ms=0.0,
        prefill_ms=0.0,
        decode_ms=0.0,
    )
    return Outcome(finish_reason, stats)
