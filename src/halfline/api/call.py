"""A body understood, whichever dialect it came in, and how its answer is written.

A dialect is one function, body and `Arrival` to `Call`; the replies inside the call are the way back.
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
    """Writes one call's answer as a whole."""

    def whole(self, completions: Sequence[Completion]) -> object:
        """The JSON, of one completion per request of the call."""


class StreamedReply(Protocol):
    """Writes one call's answer `delta` by `delta`, then one of the three ends. Remembers what it has written."""

    @property
    def media_type(self) -> str: ...

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
    """One or more requests that are answered together; none, where there is nothing to generate.

    `stream` None: the client wants the answer as a whole. `selects`: the reply leaves out choices that were generated.
    """

    id: str
    requests: tuple[CompletionRequest, ...]
    reply: Reply
    stream: StreamedReply | None = None
    selects: bool = False


Read = Callable[[bytes, Arrival], Call]
"""A dialect's way in. Raises BadRequest; takes less than a second for any body of 8 MB."""
