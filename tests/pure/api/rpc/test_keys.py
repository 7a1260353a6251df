"""Who is let in by which key: to completions, to health and to the service's own description."""

import asyncio
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_port import SERVICE
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from halfline.api.keys.key import new_key
from halfline.api.keys.key_file import FILE_NAME, add_key
from halfline.api.keys.key_ring import KeyRing
from halfline.api.options import ApiOptions

pytestmark = pytest.mark.anyio


def made(tmp_path: Path, **options: object) -> str:
    key, sent = new_key(1e9, **options)
    add_key(tmp_path / FILE_NAME, key)
    return sent


async def test_a_key_is_wanted_in_the_metadata_and_decides_the_tenant(on_port, tmp_path: Path) -> None:
    sent = made(tmp_path, tenant="team")
    async with on_port(keys=KeyRing(tmp_path / FILE_NAME)) as port:
        for metadata in ({}, {"authorization": "Bearer "}, {"authorization": f"Bearer {sent}0"}):
            refused = await port.refusal(**metadata)
            assert refused.code() == grpc.StatusCode.UNAUTHENTICATED
        assert port.stage.pipeline.requests == []
        for metadata in ({"authorization": f"Bearer {sent}"}, {"x_api_key": sent}, {"api_key": sent}):
            await port.complete(**metadata)
        assert {request.tenant for request in port.stage.pipeline.requests} == {"team"}


async def test_both_ports_share_a_key_s_limits(on_port, tmp_path: Path) -> None:
    sent = made(tmp_path, at_once=1)
    often = made(tmp_path, per_minute=1)
    async with on_port(keys=KeyRing(tmp_path / FILE_NAME)) as port:
        headers = {"x-api-key": often}
        reply = await port.stage.client.post("/v1/completions", json={"prompt": "x"}, headers=headers)
        assert reply.status_code == 200
        assert "times a minute" in (await port.refusal(x_api_key=often)).details()
        port.stage.pipeline.gate = asyncio.Event()
        events = aiter(port.stream(x_api_key=sent))
        await anext(events)
        refused = await port.refusal(x_api_key=sent)
        assert refused.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "1 requests at once" in refused.details()
        port.stage.pipeline.gate.set()
        assert [event.WhichOneof("event") async for event in events][-1] == "receipt"
        assert (await port.complete(x_api_key=sent)).choices


async def test_a_call_that_is_not_let_in_is_not_read(on_port) -> None:
    options = ApiOptions(grpc_port=0, grace_s=0.0, require_keys=True)
    async with on_port(options) as port:
        call = port.channel.stream_unary(f"{SERVICE}Complete")()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call  # which has sent nothing yet
    assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


async def test_health_tells_loading_from_serving_and_wants_no_key(on_port) -> None:
    options = ApiOptions(grpc_port=0, grace_s=0.0, require_keys=True)
    async with on_port(options) as port:
        health = health_pb2_grpc.HealthStub(port.channel)
        for name in ("", "halfline.v1.Completions"):
            told = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert told.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await health.Check(health_pb2.HealthCheckRequest(service="other"))
        assert unknown.value.code() == grpc.StatusCode.NOT_FOUND
        watch = health.Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        port.stage.failure = RuntimeError("gone")
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()


async def test_no_more_than_so_many_watch_and_who_stops_makes_room(
    on_port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halfline.api.rpc.health._MOST_WATCHERS", 1)
    async with on_port() as port:
        health = health_pb2_grpc.HealthStub(port.channel)
        first = health.Watch(health_pb2.HealthCheckRequest())
        assert (await first.read()).status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await health.Watch(health_pb2.HealthCheckRequest()).read()
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        first.cancel()
        async with asyncio.timeout(10):
            while True:
                with suppress(grpc.aio.AioRpcError):
                    await health.Watch(health_pb2.HealthCheckRequest()).read()
                    break


@pytest.mark.parametrize("keyed", [False, True])
async def test_the_service_describes_itself_to_who_may_use_it(on_port, keyed: bool, tmp_path: Path) -> None:
    sent = made(tmp_path)
    keys = KeyRing(tmp_path / FILE_NAME) if keyed else None
    asked = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="halfline.v1.Completions"),
    ]
    async with on_port(keys=keys) as port:
        reflection = reflection_pb2_grpc.ServerReflectionStub(port.channel)
        if keyed:
            call = reflection.ServerReflectionInfo()
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call.read()  # and nothing is sent, which would fail by itself once the call has ended
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
        metadata = [("x-api-key", sent)]
        services, files = [
            each async for each in reflection.ServerReflectionInfo(iter(asked), metadata=metadata)
        ]
    assert {each.name for each in services.list_services_response.service} == {
        "halfline.v1.Completions",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    found = [
        FileDescriptorProto.FromString(each) for each in files.file_descriptor_response.file_descriptor_proto
    ]
    assert "halfline.v1" in {each.package for each in found}
