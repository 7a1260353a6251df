"""The gRPC service as its clients meet it: the same answers, refusals, keys and early ends as over HTTP."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from halfline.api.keys.key import new_key
from halfline.api.keys.key_file import FILE_NAME, add_key
from halfline.api.keys.key_ring import KeyRing
from halfline.api.options import ApiOptions
from halfline.api.rpc import halfline_pb2 as pb
from halfline.api.rpc.server import grpc_beside
from halfline.api.tls_options import TlsOptions
from halfline.errors import BadSettings, Overloaded
from halfline.request import Bounds, Document, Identity, Part, SamplingParams, Schedule

pytestmark = pytest.mark.anyio

SERVICE = "/halfline.v1.Completions/"
TEXT = pb.CompletionRequest(text="def f", max_tokens=3)


@dataclass
class Port:
    """A client of the gRPC port, and the stage behind it."""

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


async def test_a_completion_is_what_the_pipeline_said_with_its_receipt(on_port) -> None:
    request = pb.CompletionRequest(
        text="def f", max_tokens=3, num_choices=2, sampling=pb.Sampling(logprobs=1, temperature=0.5)
    )
    async with on_port() as port:
        told = await port.complete(request)
    assert told.model == "letters" and told.id.startswith("cmpl-")
    assert [(each.index, each.text, each.finish_reason) for each in told.choices] == [
        (0, "abc", pb.LENGTH),
        (1, "abc", pb.LENGTH),
    ]
    assert list(told.choices[0].token_ids) == [0, 1, 2]
    first = told.choices[0].logprobs[0]
    assert (first.text, first.logprob, first.top[0].text) == ("a", -1.0, "A")
    assert told.receipt.request_id == told.id
    assert (told.receipt.num_prompt_tokens, told.receipt.total_ms, told.receipt.tier) == (5, 6.0, "miss")


async def test_a_stream_is_deltas_and_then_the_receipt(on_port) -> None:
    async with on_port() as port:
        events = [event async for event in port.stream()]
    assert [event.WhichOneof("event") for event in events] == ["delta"] * 3 + ["receipt"]
    assert "".join(event.delta.text for event in events) == "abc"
    assert [event.delta.finish_reason for event in events[:3]] == [0, 0, pb.LENGTH]
    assert {event.id for event in events} == {events[-1].receipt.request_id}


async def test_every_field_arrives_as_the_request_has_it(on_port) -> None:
    request = pb.CompletionRequest(
        document=pb.Document(
            prefix="a", suffix="b", path="x.py", parts=[pb.Part(text="p", path="y.py"), pb.Part(text="q")]
        ),
        max_tokens=4,
        user="ann",
        priority=pb.BATCH,
        deadline_ms=50,
        postprocess=False,
        min_confidence=0.5,
        bounds=pb.Bounds(min_indent=4, line_time_ms=100),
        sampling=pb.Sampling(
            temperature=0.7,
            top_p=0.9,
            min_p=0.1,
            presence_penalty=1.0,
            frequency_penalty=-1.0,
            repetition_penalty=1.5,
            top_k=5,
            logit_bias={3: -2.0},
            seed=2**64 - 1,
            stop=["x", "y"],
            stop_token_ids=[7],
            ignore_eos=True,
            logprobs=2,
        ),
    )
    async with on_port() as port:
        await port.complete(request)
        (asked,) = port.stage.pipeline.requests
    assert asked.prompt == Document("a", "b", "x.py", (Part("p", "y.py"), Part("q")))
    assert asked.params == SamplingParams(
        temperature=0.7,
        top_k=5,
        top_p=0.9,
        min_p=0.1,
        repetition_penalty=1.5,
        presence_penalty=1.0,
        frequency_penalty=-1.0,
        logit_bias={3: -2.0},
        seed=2**64 - 1,
        logprobs=2,
        stop=("x", "y"),
        stop_token_ids=(7,),
        ignore_eos=True,
    )
    assert (asked.max_tokens, asked.user, asked.priority, asked.deadline_ms) == (4, "ann", "batch", 50)
    assert (asked.postprocess, asked.min_confidence) == (False, 0.5)
    assert asked.bounds == Bounds(min_indent=4, line_time_ms=100)
    assert asked.identity == Identity("local", "ann", "x.py")


async def test_what_is_left_out_has_the_profile_s_value_and_replaces_nobody(on_port) -> None:
    async with on_port() as port:
        await port.complete(pb.CompletionRequest(document=pb.Document(prefix="a"), max_tokens=0))
        await port.complete(pb.CompletionRequest(token_ids=pb.TokenIds(ids=[1, 2])))
        schedule = pb.Schedule(by="entropy", k_max=30)
        high = pb.Sampling(profile="high-quality", do_sample=True, schedule=schedule)
        await port.complete(pb.CompletionRequest(text="", max_tokens=1, sampling=high))
        editor, raw, scheduled = port.stage.pipeline.requests
    assert (editor.max_tokens, editor.priority, editor.identity) == (0, "interactive", None)
    assert editor.prompt == Document("a", "", None, (), "127.0.0.1")
    assert (raw.prompt, raw.max_tokens, raw.params) == ((1, 2), 128, SamplingParams())
    assert scheduled.params.schedule == Schedule(by="entropy", k_max=30)


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (pb.CompletionRequest(), "`prompt` is missing"),
        (pb.CompletionRequest(token_ids=pb.TokenIds()), "`token_ids` is an empty list"),
        (pb.CompletionRequest(token_ids=pb.TokenIds(ids=[2**32 - 1])), "`token_ids`: it must be"),
        (pb.CompletionRequest(token_ids=pb.TokenIds(ids=[1] * 600)), "at most 512"),
        (pb.CompletionRequest(text="x", max_tokens=2**31), "`max_tokens`: input should be less than"),
        (pb.CompletionRequest(text="x", num_choices=129), "`num_choices`: input should be less than"),
        (pb.CompletionRequest(text="x", deadline_ms=0), "`deadline_ms`: input should be greater than"),
        (pb.CompletionRequest(text="x", user="u" * 1025), "`user`: string should have at most 1024"),
        (pb.CompletionRequest(text="x", priority=9), "`priority` is 9"),
        (pb.CompletionRequest(text="x", min_confidence=math.nan), "`min_confidence`"),
        (pb.CompletionRequest(text="x", bounds=pb.Bounds(min_indent=2**31)), "`min_indent` is"),
        (pb.CompletionRequest(text="x", sampling=pb.Sampling(temperature=math.inf)), "`temperature`"),
        (pb.CompletionRequest(text="x", sampling=pb.Sampling(logprobs=101)), "`logprobs`"),
        (pb.CompletionRequest(text="x", sampling=pb.Sampling(stop=["x"] * 65)), "`stop`"),
        (pb.CompletionRequest(text="x", sampling=pb.Sampling(profile="none")), "no profile 'none'"),
        (
            pb.CompletionRequest(text="x", sampling=pb.Sampling(schedule=pb.Schedule(by="mood"))),
            "`schedule.by`",
        ),
    ],
)
async def test_a_bad_value_is_named_in_the_words_of_http(on_port, request_, sentence: str) -> None:
    async with on_port() as port:
        refused = await port.refusal(request_)
        assert port.stage.pipeline.requests == []
    assert refused.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert sentence in refused.details()


@pytest.mark.parametrize("message", [b"\xff", b"\x0a\x02\xc3\x28", b"\x0a\xff\xff\xff\xff\x0f", b"{}"])
async def test_bytes_that_are_no_message_are_refused(on_port, message: bytes) -> None:
    async with on_port() as port:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await port.complete_bytes(message)
        assert (await port.complete()).choices
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "no halfline.v1.CompletionRequest" in refused.value.details()


async def test_what_the_pipeline_refuses_has_its_sentence_and_when_to_come_back(on_port) -> None:
    async with on_port() as port:
        port.stage.pipeline.refusal = Overloaded(9, 8, 2.5)
        for refused in (await port.refusal(), await failed_stream(port)):
            assert refused.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert refused.details() == "9 requests are waiting and the limit is 8"
            assert ("retry-after", "3") in list(refused.trailing_metadata())
        port.stage.pipeline.refusal = RuntimeError("a secret of ours")
        broken = await port.refusal()
        assert broken.code() == grpc.StatusCode.INTERNAL and "secret" not in broken.details()
        port.stage.pipeline.refusal = None
        port.stage.pipeline.fails = True
        assert (await port.refusal()).code() == grpc.StatusCode.UNAVAILABLE
        assert (await failed_stream(port)).code() == grpc.StatusCode.UNAVAILABLE


async def test_a_burst_on_one_connection_is_answered_or_told_when_to_come_back(on_port) -> None:
    """Over a connection that is in use: what comes at once is not held back by the client then."""
    async with on_port(max_calls=200) as port:
        await port.complete()
        gate = port.stage.pipeline.gate = asyncio.Event()
        calls = [asyncio.ensure_future(port.complete()) for _ in range(250)]
        async with asyncio.timeout(30):
            while sum(call.done() for call in calls) < 50:
                await asyncio.sleep(0.01)
        gate.set()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        refused = [each for each in ended if isinstance(each, grpc.aio.AioRpcError)]
        assert len(refused) == 50
        assert {each.code() for each in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert {dict(each.trailing_metadata())["retry-after"] for each in refused} == {"1"}
        await port.complete()


async def failed_stream(port: Port) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        async for _ in port.stream():
            pass
    return refused.value


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


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.01)


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


async def test_a_message_that_does_not_come_or_is_too_large_is_given_up(on_port) -> None:
    options = ApiOptions(grpc_port=0, grace_s=0.0, body_timeout_s=0.2, max_body_bytes=1000)
    async with on_port(options) as port:
        with pytest.raises(grpc.aio.AioRpcError) as slow:
            await port.channel.stream_unary(f"{SERVICE}Complete")()
        large = await port.refusal(pb.CompletionRequest(text="x" * 2000))
        empty = port.channel.stream_unary(f"{SERVICE}Complete")()
        await empty.done_writing()
        with pytest.raises(grpc.aio.AioRpcError) as without:
            await empty
        assert (await port.complete()).choices
    assert slow.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert "within 0.2 seconds" in slow.value.details()
    assert large.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "without a message" in without.value.details()


async def test_a_client_that_stops_reading_is_dropped_and_the_next_is_served(on_port) -> None:
    options = ApiOptions(grpc_port=0, grace_s=0.0, send_timeout_s=0.3)
    endless = pb.CompletionRequest(text="x", max_tokens=2**31 - 1, sampling=pb.Sampling(logprobs=100))
    async with on_port(options) as port:
        async with grpc.aio.insecure_channel(port.address) as channel:
            call = channel.unary_stream(f"{SERVICE}StreamComplete")(endless.SerializeToString())
            await call.read()
            await until(lambda: len(port.stage.pipeline.cancelled) == 1)
            assert (await port.complete()).choices


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


async def test_a_port_that_is_taken_is_an_error_of_the_settings(on_port) -> None:
    async with on_port() as port:
        options = ApiOptions(grpc_port=int(port.address.rpartition(":")[2]))
        with pytest.raises(BadSettings, match="cannot listen for gRPC on port"):
            async with on_port(options):
                pass
