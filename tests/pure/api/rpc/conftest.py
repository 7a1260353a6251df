"""The gRPC port beside a stage."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc_port import Port

from halfline.api.options import ApiOptions
from halfline.api.rpc.server import grpc_beside
from halfline.api.tls_options import TlsOptions


@pytest.fixture
def on_port(on_stage: Callable[..., Any]) -> Callable[..., Any]:
    """`async with on_port(options, keys=…) as port`."""

    @asynccontextmanager
    async def opened(
        options: ApiOptions | None = None, *, max_calls: int = 1000, **parts: Any
    ) -> AsyncIterator[Port]:
        bound: list[int] = []
        options = options or ApiOptions(grpc_port=0, grace_s=0.0)
        beside = grpc_beside("127.0.0.1", TlsOptions(), bound.append, max_calls=max_calls)
        async with on_stage(options, beside=[beside], **parts) as stage:
            address = f"127.0.0.1:{bound[0]}"
            async with grpc.aio.insecure_channel(address) as channel:
                yield Port(stage, address, channel)

    return opened
