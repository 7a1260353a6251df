"""What a client of the gRPC service has."""

from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from halfline.api.rpc import halfline_pb2 as pb

SERVICE = "/halfline.v1.Completions/"
TEXT = pb.CompletionRequest(text="def f", max_tokens=3)


@dataclass
class Port:
    """A client of the gRPC port, and the stage behind it. Metadata is given by name, with `_` for `-`."""

    stage: Any
    address: str
    channel: grpc.aio.Channel

    async def complete(self, request: pb.CompletionRequest = TEXT, **metadata: str) -> pb.Completion:
        return pb.Completion.FromString(await self.complete_bytes(request.SerializeToString(), **metadata))

    def complete_bytes(self, message: bytes, **metadata: str) -> Any:
        return self.channel.unary_unary(f"{SERVICE}Complete")(message, metadata=_pairs(metadata))

    def stream(self, request: pb.CompletionRequest = TEXT, **metadata: str) -> Any:
        call = self.channel.unary_stream(
            f"{SERVICE}StreamComplete", response_deserializer=pb.CompletionEvent.FromString
        )
        return call(request.SerializeToString(), metadata=_pairs(metadata))

    async def refusal(self, request: pb.CompletionRequest = TEXT, **metadata: str) -> grpc.aio.AioRpcError:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await self.complete(request, **metadata)
        return refused.value


def _pairs(metadata: dict[str, str]) -> list[tuple[str, str]]:
    return [(name.replace("_", "-"), value) for name, value in metadata.items()]
