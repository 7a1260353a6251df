"""What sampled tokens make of a sequence: text that may be shown, and an end."""

from collections.abc import Iterable

from halfline.engine.sequence import Sequence
from halfline.request import FinishReason
from halfline.sampling.reader import NOTHING, Piece
from halfline.sampling.sampler import Scored


def append(sequence: Sequence, sampled: Iterable[Scored]) -> tuple[Piece, FinishReason | None]:
    """Append sampled tokens up to the one that ends the sequence; what may be shown of them, and why it ended.

    All but the first were sampled behind a token, of a draft that was right or of a greedy run, whose KV is written: it
    counts as computed.
    """
    shown = NOTHING
    for position, token in enumerate(sampled):
        sequence.num_computed += position > 0
        sequence.num_generated += 1
        piece, reason = _read(sequence, token)
        shown += piece
        if reason is not None:
            return shown, reason
    return shown, None


def _read(sequence: Sequence, token: Scored) -> tuple[Piece, FinishReason | None]:
    """Append one token; what may be shown by now, and why the sequence ends with it if it does."""
    reader = sequence.work.reader
    if token.token_id in sequence.work.stop_token_ids and not reader.forcing:
        return reader.finish(), "stop"
    sequence.token_ids.append(token.token_id)
    piece = reader.push(token)
    if reader.stopped:
        return piece, "stop"
    if sequence.num_left == 0:
        return piece + reader.finish(), "length"
    return piece, None
