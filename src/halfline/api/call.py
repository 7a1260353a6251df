"""A body understood, whichever dialect it came in, and how its answer is written.

A dialect is one function, body and `Arrival` to `Call`; the `Reply` inside the call is the way back.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from starlette.datastructures import Headers

from halfline.api.options import ApiOptions
from halfline.api.serving import Loaded
from halfline.request import ChoiceDelta, Completion, CompletionRequest, Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What a dialect may know beside the body. `created` is in seconds since 1970."""

    call_id: str
    tenant: str
    created: int
    headers: Headers
    options: ApiOptions
    loaded: Loaded


class Reply(Protocol):
    """Writes one call's answer: either `whole`, or `delta` after `delta` and one of the three ends.

    Belongs to one call and may remember what it has written.
    """

    @property
    def media_type(self) -> str:
        """Of a stream."""

    def whole(self, completions: Sequence[Completion]) -> object:
        """The JSON of the whole answer, one completion per request of the call."""

    def delta(self, position: int, delta: ChoiceDelta) -> bytes:
        """What is sent for one delta of the request at `position`; nothing where the dialect has no words for it."""

    def end(self, receipts: Sequence[Receipt]) -> bytes:
        """Behind the last delta."""

    def cut_short(self) -> bytes:
        """The end of a stream whose server stops before it is done."""

    def error(self, error: Exception) -> bytes:
        """The end of a stream that failed after its first event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One or more requests that are answered together."""

    id: str
    requests: tuple[CompletionRequest, ...]
    streams: bool
    reply: Reply


Read = Callable[[bytes, Arrival], Call]
"""A dialect's way in. Raises BadRequest; takes less than a second for any body of 8 MB."""
