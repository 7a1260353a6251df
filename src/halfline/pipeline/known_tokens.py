"""Reads tokens that are known as if the engine had just sampled them (engine/scheduler.py)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from halfline.engine.sequence import Outcome, SequenceStats, Work
from halfline.request import FinishReason
from halfline.sampling.reader import NOTHING, Piece, joined
from halfline.sampling.sampler import Scored

_RUN_TOKENS = 32
"""Read at once: a path that goes on behind the answer's end is followed no farther in vain."""


@dataclass(frozen=True, slots=True)
class Known:
    """What can be shown of known tokens: a whole answer where there is a `finish_reason`."""

    tokens: Sequence[Scored]
    piece: Piece
    finish_reason: FinishReason | None


def read_known(work: Work, tokens: Iterable[Scored], again: Callable[[], Work]) -> Known:
    """Through the work's own sampler and reader, up to where the answer ends or no more is known.

    Many tokens at a time, which takes a fraction of the time. Only where the text turns out to end among them it has to
    be known at which: then all are read one by one, by the same work made `again`.
    """
    reader = work.reader
    read: list[Scored] = []
    pieces: list[Piece] = []
    reason: FinishReason | None = None
    run: list[Scored] = []
    for token in tokens:
        read.append(token)
        work.sampler.follow(token.token_id)
        forcing = reader.forcing
        if token.token_id in work.stop_token_ids and not forcing:
            reason = "stop"
            break
        run.append(token)
        if forcing:
            pieces.append(reader.push(token))
            run = []
        elif len(run) > _RUN_TOKENS:
            pieces.append(reader.push_all(run[:-1]))
            run = run[-1:]
        if reader.stopped:
            return read_one_by_one(again(), read)
        if len(read) - reader.num_forced == work.max_new_tokens:
            reason = "length"
            break
    # Where the answer ended when it was computed, it mostly ends again: at the last token that is known.
    if len(run) > 1:
        pieces.append(reader.push_all(run[:-1]))
        if reader.stopped:
            return read_one_by_one(again(), read)
    if run:
        pieces.append(reader.push(run[-1]))
    if reader.stopped and reason == "stop":  # before the stop token
        return read_one_by_one(again(), read)
    if reader.stopped:
        reason = "stop"
    elif reason is not None:
        pieces.append(reader.finish())
    return Known(read, joined(pieces), reason)


def read_one_by_one(work: Work, tokens: Iterable[Scored]) -> Known:
    """The same as `read_known`."""
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
