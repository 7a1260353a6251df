"""What a pipeline is to whoever asks it: the whole one (complete.py), or one that stands before another."""

from collections.abc import AsyncGenerator
from typing import Protocol

from halfline.request import ChoiceDelta, Completion, CompletionRequest, Receipt


class Pipeline(Protocol):
    """What answers are taken from."""

    def stream(self, request: CompletionRequest) -> AsyncGenerator[ChoiceDelta, None]:
        """Deltas of all choices as they come; closing the generator cancels the request."""

    async def complete(self, request: CompletionRequest) -> Completion:
        """The whole completion; cancelling the caller cancels the request."""

    def cancel(self, request_id: str, tenant: str) -> bool:
        """End a running request of that tenant; False when there is none by that id."""

    def receipt(self, request_id: str) -> Receipt | None:
        """What a finished request cost; None when nothing is remembered of it."""

    async def final_receipt(self, request_id: str) -> Receipt | None:
        """The same as soon as its last numbers are there: the engine notices an early end a step later."""
