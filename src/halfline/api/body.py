"""Request bodies have limits that hold before they are in memory: in size, and in the time they take to come."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from halfline.api.live import LiveRequests
from halfline.errors import BodyTooLarge, BodyTooSlow


class BodyLimits:
    """Middleware: reading a body past `max_bytes` raises BodyTooLarge where the body is read, and BodyTooSlow when it
    is not whole `timeout_s` after the request's head; ShuttingDown when `live` ends before that.

    A declared length is believed at once, a streamed body is counted as it comes.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, timeout_s: float, live: LiveRequests) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        num_bytes = 0
        declared = _declared_length(scope)
        due_at: float | None = asyncio.get_running_loop().time() + self._timeout_s  # None: it is whole

        async def counted() -> Message:
            nonlocal num_bytes, due_at
            if declared > self._max_bytes:
                raise BodyTooLarge(declared, self._max_bytes)
            try:
                message = await (receive() if due_at is None else self._live.until(due_at, receive()))
            except TimeoutError:
                raise BodyTooSlow(num_bytes, self._timeout_s) from None
            if not message.get("more_body", False):
                due_at = None
            num_bytes += len(message.get("body", b""))
            if num_bytes > self._max_bytes:
                raise BodyTooLarge(num_bytes, self._max_bytes)
            return message

        await self._app(scope, counted, send)


def _declared_length(scope: Scope) -> int:
    """Content-Length, 0 when absent; the HTTP parser has refused malformed ones already."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:19])
    return 0
