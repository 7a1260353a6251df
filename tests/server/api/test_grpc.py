"""The gRPC port of a real server, over TLS: the same text as over HTTP, and a cancelled call ends within a step."""

import re
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from halfline.api.rpc import halfline_pb2 as pb

PREFIX, SUFFIX = "def add(a, b):\n    return ", "\n\nprint(add(1, 2))\n"


@pytest.fixture(scope="module")
def secured(start_server: Any, files: Path) -> Any:
    return start_server(
        HALFLINE_TLS__CERT=str(files / "server.pem"),
        HALFLINE_TLS__KEY=str(files / "server.key"),
        HALFLINE_API__GRPC_PORT="0",
    ).wait_until_greeted()


@pytest.fixture(scope="module")
def address(secured: Any) -> str:
    """As the greeting tells it."""
    deadline = time.monotonic() + 30
    while not (found := re.search(r"gRPC +(\S+)\n", "".join(secured.log))):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found[1]


@pytest.fixture(scope="module")
def channel(address: str, files: Path) -> Iterator[grpc.Channel]:
    credentials = grpc.ssl_channel_credentials((files / "ca.pem").read_bytes())
    with grpc.secure_channel(address, credentials) as opened:
        yield opened


@pytest.fixture
def client(secured: Any, files: Path) -> Iterator[httpx.Client]:
    context = ssl.create_default_context(cafile=files / "ca.pem")
    with httpx.Client(base_url=secured.url, verify=context, timeout=120) as opened:
        yield opened


def call(channel: grpc.Channel, kind: str, request: pb.CompletionRequest) -> Any:
    method = getattr(channel, "unary_stream" if kind == "StreamComplete" else "unary_unary")
    reply = pb.CompletionEvent if kind == "StreamComplete" else pb.Completion
    return method(
        f"/halfline.v1.Completions/{kind}", pb.CompletionRequest.SerializeToString, reply.FromString
    )(request, timeout=120)


def test_both_ports_answer_alike_and_streams_hold_the_same_text(
    channel: grpc.Channel, client: httpx.Client
) -> None:
    asked = pb.CompletionRequest(document=pb.Document(prefix=PREFIX, suffix=SUFFIX), max_tokens=12)
    whole = call(channel, "Complete", asked)
    events = list(call(channel, "StreamComplete", asked))
    body = {"prompt": PREFIX, "suffix": SUFFIX, "max_tokens": 12}
    over_http = client.post("/v1/completions", json=body).json()["choices"][0]["text"]
    assert whole.choices[0].text == over_http == "".join(event.delta.text for event in events) != ""
    why = client.get(f"/v1/completions/{whole.id}/why").json()
    assert why["num_prompt_tokens"] == whole.receipt.num_prompt_tokens > 0
    assert events[-1].receipt.num_generated_tokens == whole.receipt.num_generated_tokens


def test_a_cancelled_call_frees_its_sequence(channel: grpc.Channel, client: httpx.Client) -> None:
    sampling = pb.Sampling(ignore_eos=True)
    endless = pb.CompletionRequest(text="def f():", max_tokens=4000, sampling=sampling)
    events = call(channel, "StreamComplete", endless)
    first = next(events)
    events.cancel()
    deadline = time.monotonic() + 60
    while (found := client.get(f"/v1/completions/{first.id}/why")).status_code == 404:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert found.json()["finish_reasons"] == ["cancelled"]
    assert found.json()["num_generated_tokens"] < 2000
    while 'halfline_sequences{state="running"} 0.0' not in client.get("/metrics").text:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_health_is_told_and_plain_text_is_not_spoken(channel: grpc.Channel, address: str) -> None:
    told = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60)
    assert told.status == health_pb2.HealthCheckResponse.SERVING
    with grpc.insecure_channel(address) as plain, pytest.raises(grpc.RpcError) as refused:
        health_pb2_grpc.HealthStub(plain).Check(health_pb2.HealthCheckRequest(), timeout=60)
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
