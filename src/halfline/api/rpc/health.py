"""grpc.health.v1: SERVING once completions are, for load balancers that ask by gRPC. Wants no key."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from grpc_health.v1 import health_pb2 as pb
from grpc_health.v1 import health_pb2_grpc

from halfline.api.rpc.service import SERVICE
from halfline.api.serving import Serving
from halfline.errors import HalflineError

Context = grpc.aio.ServicerContext[Any, Any]

HEALTH = pb.DESCRIPTOR.services_by_name["Health"].full_name

# An engine that fails tells nobody, so it is looked at.
_LOOK_AGAIN_S = 1.0

# Nobody has to show a key for watching, and each is looked at for.
_MOST_WATCHERS = 256


class Health(health_pb2_grpc.HealthServicer):
    """Of the whole server (the empty name) and of Completions, which are the same."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._num_watchers = 0

    async def Check(self, request: pb.HealthCheckRequest, context: Context) -> pb.HealthCheckResponse:
        if request.service not in ("", SERVICE):
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service here")
        return pb.HealthCheckResponse(status=self._status(request.service))

    async def Watch(
        self, request: pb.HealthCheckRequest, context: Context
    ) -> AsyncIterator[pb.HealthCheckResponse]:
        if self._num_watchers >= _MOST_WATCHERS:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"{_MOST_WATCHERS} watch already; ask again"
            )
        self._num_watchers += 1
        told: int | None = None
        try:
            while True:
                status = self._status(request.service)
                if status != told:
                    told = status
                    yield pb.HealthCheckResponse(status=status)
                await asyncio.sleep(_LOOK_AGAIN_S)
        finally:
            self._num_watchers -= 1

    def _status(self, service: str) -> int:
        if service not in ("", SERVICE):
            return pb.HealthCheckResponse.SERVICE_UNKNOWN
        try:
            _ = self._serving.loaded
        except HalflineError:
            return pb.HealthCheckResponse.NOT_SERVING
        return pb.HealthCheckResponse.SERVING
