"""Request bodies have a limit that holds before they are in memory."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from halfline.errors import BodyTooLarge


class BodyLimit:
    """Middleware: reading a body past `max_bytes` raises BodyTooLarge where the body is read.

    A declared length is believed at once, a streamed body is counted as it comes.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        num_bytes = 0
        declared = _declared_length(scope)

        async def counted() -> Message:
            nonlocal num_bytes
            if declared > self._max_bytes:
                raise BodyTooLarge(declared, self._max_bytes)
            message = await receive()
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
