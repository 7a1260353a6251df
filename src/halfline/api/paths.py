"""Paths mean what they say: one that climbs, or that two readers might read differently, is refused."""

import re
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from halfline.errors import BadRequest, HalflineError

# No route has any of these. A proxy in front that judges by the beginning of a path may resolve them, and we would not.
_AMBIGUOUS = re.compile(r"(?:^|/)\.\.?(?:/|$)|//|[\\\x00-\x1f\x7f]")


class PlainPaths:
    """Middleware; refuses by `respond`. Paths are looked at as they are decoded, `%2e%2e` being `..` by then."""

    def __init__(self, app: ASGIApp, respond: Callable[[Scope, HalflineError], Response]) -> None:
        self._app = app
        self._respond = respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _AMBIGUOUS.search(scope["path"]):
            refusal = BadRequest(
                "the path holds `..`, `//`, a backslash or a control character; no path here does"
            )
            await self._respond(scope, refusal)(scope, receive, send)
            return
        await self._app(scope, receive, send)
