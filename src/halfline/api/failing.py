"""Routes whose failures are told in their own dialect's words."""

from collections.abc import Callable, Iterable
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from halfline.api.dialects.ollama_reply import ollama_failure
from halfline.api.failures import failure_response
from halfline.errors import HalflineError


class DialectRoute(APIRoute):
    """A route that words failures itself."""

    respond: Callable[[HalflineError], Response]


def failing_with(respond: Callable[[HalflineError], Response]) -> type[APIRoute]:
    """A class for `APIRouter(route_class=…)`: what its routes raise is answered by `respond`."""

    class FailingRoute(DialectRoute):
        def get_route_handler(self) -> Callable[[Request], Any]:
            handle = super().get_route_handler()

            async def handled(request: Request) -> Response:
                try:
                    response: Response = await handle(request)
                except HalflineError as error:
                    return respond(error)
                return response

            return handled

    FailingRoute.respond = staticmethod(respond)
    return FailingRoute


def worded(routers: Iterable[APIRouter], scope: Scope, error: HalflineError) -> Response:
    """The answer to a request that was refused before it came to its route, in the words of that route; Ollama's where
    there is none below its `/api/`.

    Notes the route in the scope, as if it had answered.
    """
    for router in routers:
        for route in router.routes:
            match, _ = route.matches(scope)
            if match is Match.FULL:
                scope.setdefault("route", route)
            if isinstance(route, DialectRoute) and match is not Match.NONE:
                return route.respond(error)
    return ollama_failure(error) if is_ollama(scope["path"]) else failure_response(error)


def is_ollama(path: str) -> bool:
    """All below is Ollama's, also what this server has no route for."""
    return path.startswith("/api/")
