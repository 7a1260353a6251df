"""Every request gets an id, a log line and a place in the metrics, and every failure an answer.

The outermost layer: it sees the reply as the client will, also when something inside broke.
"""

import logging
import re
import time
import uuid
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from halfline.api.failures import failure_response, status_of
from halfline.api.live import ClientGone
from halfline.telemetry.log import fields
from halfline.telemetry.metrics import Metrics

_log = logging.getLogger(__name__)

# Where in the ASGI scope the routes find the request's id.
REQUEST_ID = "halfline.request_id"

# What may go into logs and headers unchanged.
_SANE_ID = re.compile(r"[\w.:\-]{1,128}", re.ASCII)

# nginx's number for a client that left before its answer; it is only logged and counted.
_CLIENT_GONE = 499


class Observed:
    """Middleware around the whole application."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope[REQUEST_ID] = request_id_of(Headers(scope=scope))
        started = self._clock()
        status: int | None = None

        async def identified(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        try:
            await self._app(scope, receive, identified)
        except (ClientGone, ClientDisconnect):
            status = _CLIENT_GONE
        except Exception as error:
            _log.exception("request broke", extra=fields(request_id=request_id))
            if status is None:
                await failure_response(error)(scope, receive, identified)
            status = status_of(error)
        finally:
            seconds = self._clock() - started
            route = _route(scope)
            self._metrics.answered(route, status or _CLIENT_GONE, seconds)
            _log.info(
                "request",
                extra=fields(
                    request_id=request_id,
                    method=scope["method"],
                    route=route,
                    status=status or _CLIENT_GONE,
                    ms=seconds * 1000,
                ),
            )


def request_id_of(headers: Headers) -> str:
    """The client's own where it is short and plain, else a fresh one."""
    sent = headers.get("x-request-id", "")
    return sent if _SANE_ID.fullmatch(sent) else uuid.uuid4().hex


def _route(scope: Scope) -> str:
    """The pattern of the route that answered; every unknown path is one "other"."""
    return getattr(scope.get("route"), "path", "other")
