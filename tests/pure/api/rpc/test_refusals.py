"""What the service refuses, in which words, and when to come back."""

import asyncio
import math

import grpc
import pytest
from grpc_port import SERVICE, Port

from halfline.api.options import ApiOptions
from halfline.api.rpc import halfline_pb2 as pb
from halfline.errors import BadSettings, Overloaded

pytestmark = pytest.mark.anyio


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


async def failed_stream(port: Port) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        async for _ in port.stream():
            pass
    return refused.value


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


async def test_a_port_that_is_taken_is_an_error_of_the_settings(on_port) -> None:
    async with on_port() as port:
        options = ApiOptions(grpc_port=int(port.address.rpartition(":")[2]))
        with pytest.raises(BadSettings, match="cannot listen for gRPC on port"):
            async with on_port(options):
                pass
