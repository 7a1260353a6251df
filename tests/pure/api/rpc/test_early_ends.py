"""Calls that end early: cancelled, late, no longer read, or with the server."""

import asyncio
from collections.abc import Callable

import grpc
import pytest
from grpc_port import SERVICE, TEXT

from halfline.api.options import ApiOptions
from halfline.api.rpc import halfline_pb2 as pb

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("stream", [True, False])
async def test_work_ends_when_the_client_cancels_or_its_time_is_up(on_port, stream: bool) -> None:
    async with on_port() as port:
        pipeline = port.stage.pipeline
        pipeline.gate = asyncio.Event()
        call = port.stream() if stream else port.complete_bytes(TEXT.SerializeToString())
        if stream:
            assert (await call.read()).delta.text == "a"
        await until(lambda: len(pipeline.requests) == 1)
        call.cancel()
        await until(lambda: pipeline.cancelled == [pipeline.requests[0].id])
        timed = port.channel.unary_unary(f"{SERVICE}Complete")(TEXT.SerializeToString(), timeout=0.2)
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await timed
        assert late.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: len(pipeline.cancelled) == 2)
        metrics = (await port.stage.client.get("/metrics")).text
    method = "StreamComplete" if stream else "Complete"
    assert f'halfline_requests_total{{route="{SERVICE}{method}",status="CANCELLED"}}' in metrics


async def test_a_client_that_stops_reading_is_dropped_and_the_next_is_served(on_port) -> None:
    options = ApiOptions(grpc_port=0, grace_s=0.0, send_timeout_s=0.3)
    endless = pb.CompletionRequest(text="x", max_tokens=2**31 - 1, sampling=pb.Sampling(logprobs=100))
    async with on_port(options) as port:
        async with grpc.aio.insecure_channel(port.address) as channel:
            call = channel.unary_stream(f"{SERVICE}StreamComplete")(endless.SerializeToString())
            await call.read()
            await until(lambda: len(port.stage.pipeline.cancelled) == 1)
            assert (await port.complete()).choices


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.01)


async def test_a_call_has_the_name_its_client_gave_it_and_can_be_cancelled_by_it(on_port) -> None:
    async with on_port() as port:
        port.stage.pipeline.gate = asyncio.Event()
        call = port.stream(x_request_id="keystroke-7", x_halfline_cursor="vim-1")
        events = aiter(call)
        await anext(events)
        assert ("x-request-id", "keystroke-7") in list(await call.initial_metadata())
        reply = await port.stage.client.post("/v1/completions/keystroke-7/cancel")
        port.stage.pipeline.gate.set()
        assert reply.status_code == 200
        assert port.stage.pipeline.called_off == [port.stage.pipeline.requests[0].id]
        assert [event.WhichOneof("event") async for event in events][-1] == "receipt"


async def test_a_server_that_stops_ends_running_calls_with_its_reason(on_port) -> None:
    async with on_port() as port:
        port.stage.pipeline.gate = asyncio.Event()
        call = port.stream()
        await call.read()
        port.stage.live.end_all()
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await call.read()
    assert ended.value.code() == grpc.StatusCode.UNAVAILABLE
    assert ended.value.details() == "the server is shutting down"
