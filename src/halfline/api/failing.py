"""Routes whose failures are told in their own dialect's words."""

from collections.abc import Callable
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from halfline.errors import HalflineError


def failing_with(respond: Callable[[HalflineError], Response]) -> type[APIRoute]:
    """A class for `APIRouter(route_class=…)`: what its routes raise is answered by `respond`."""

    class FailingRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Any]:
            handle = super().get_route_handler()

            async def handled(request: Request) -> Response:
                try:
                    response: Response = await handle(request)
                except HalflineError as error:
                    return respond(error)
                return response

            return handled

    return FailingRoute
