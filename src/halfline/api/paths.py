"""Paths mean what they say: one that climbs, or that two readers might read differently, is refused."""

import re

from starlette.types import ASGIApp, Receive, Scope, Send

from halfline.api.failures import failure_response
from halfline.errors import BadRequest

# No route has any of these. A proxy in front that judges by the beginning of a path may resolve them, and we would not.
_AMBIGUOUS = re.compile(r"(?:^|/)\.\.?(?:/|$)|//|[\\\x00-\x1f\x7f]")


class PlainPaths:
    """Middleware. Paths are looked at as they are decoded, `%2e%2e` being `..` by then."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _AMBIGUOUS.search(scope["path"]):
            refusal = BadRequest(
                "the path holds `..`, `//`, a backslash or a control character; no path here does"
            )
            await failure_response(refusal)(scope, receive, send)
            return
        await self._app(scope, receive, send)
