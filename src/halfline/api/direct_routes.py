"""The shortest way to an endpoint: no matching of paths one by one, no dependencies, no models of what is returned.

FastAPI's own way takes a tenth of a millisecond, a third of what an empty request costs. Endpoints that take the
request and return the response have no use for it.
"""

import inspect
from collections.abc import Iterable, Mapping
from typing import get_type_hints

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from halfline.api.failing import DialectRoute
from halfline.api.failures import failure_response
from halfline.errors import HalflineError


class DirectRoutes:
    """Middleware, the innermost: calls the endpoint of a request's route itself, where that `is_direct`. All else, and
    what nobody serves, goes on to the application.
    """

    def __init__(self, app: ASGIApp, routers: Iterable[APIRouter]) -> None:
        self._app = app
        self._routes = direct_routes(routers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = route
        try:
            response: Response = await route.endpoint(Request(scope, receive, send))
        except HalflineError as error:
            worded = route.respond if isinstance(route, DialectRoute) else failure_response
            response = worded(error)
        await response(scope, receive, send)


def direct_routes(routers: Iterable[APIRouter]) -> Mapping[tuple[str, str], APIRoute]:
    """Those of the routers that are direct, by method and path."""
    return {
        (method, route.path): route
        for router in routers
        for route in router.routes
        if isinstance(route, APIRoute) and is_direct(route)
        for method in route.methods or ()
    }


def is_direct(route: APIRoute) -> bool:
    """Whether its path is one text, and its endpoint awaits nothing but the request and makes the response."""
    hints = get_type_hints(route.endpoint)
    returned = hints.pop("return", None)
    return (
        "{" not in route.path
        and inspect.iscoroutinefunction(route.endpoint)
        and [*hints.values()] == [Request]
        and isinstance(returned, type)
        and issubclass(returned, Response)
    )
