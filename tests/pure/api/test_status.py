"""Health, models, metrics, request ids, CORS: what is said about the server itself."""

import asyncio
import threading

import pytest

from halfline.api.options import ApiOptions
from halfline.errors import UnsupportedModel

pytestmark = pytest.mark.anyio


async def test_an_early_end_is_counted_with_its_last_numbers_and_keeps_nobody_waiting(on_stage) -> None:
    async with on_stage() as stage:
        stage.pipeline.settles, stage.pipeline.ends_with = asyncio.Event(), "deadline"
        assert (await stage.complete(prompt="x", max_tokens=3)).status_code == 200
        counted = 'halfline_completions_total{finish_reason="deadline"} 1.0'
        assert counted not in (await stage.client.get("/metrics")).text
        stage.pipeline.settles.set()
        await asyncio.sleep(0.01)
        assert counted in (await stage.client.get("/metrics")).text


async def test_while_the_model_loads_health_says_so_and_completions_say_when_to_come_back(on_stage) -> None:
    may_load = threading.Event()

    def slow():
        may_load.wait(10)
        raise UnsupportedModel("m.gguf", "no")

    async with on_stage(load=slow) as stage:
        health = await stage.client.get("/health")
        completion = await stage.complete(prompt="x")
        streamed = await stage.complete(prompt="x", stream=True)
        may_load.set()
    assert health.status_code == 503
    assert health.json() == {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
    for reply in (completion, streamed):
        assert reply.status_code == 503
        assert reply.headers["retry-after"] == "1"
        assert reply.json()["error"]["type"] == "unavailable_error"


async def test_ollama_s_clients_find_somebody_at_the_root(on_stage) -> None:
    async with on_stage() as stage:
        head, whole = await stage.client.head("/"), await stage.client.get("/")
    assert (head.status_code, head.content) == (200, b"")
    assert (whole.status_code, whole.text) == (200, "halfline is running\n")


async def test_a_model_that_cannot_be_loaded_is_told_by_health(on_stage) -> None:
    def broken():
        raise UnsupportedModel("m.gguf", "the family is unknown")

    async with on_stage(load=broken) as stage:
        health = await stage.client.get("/health")
        while "Loading" in health.text:
            await asyncio.sleep(0)
            health = await stage.client.get("/health")
        completion = await stage.complete(prompt="x")
    assert health.status_code == completion.status_code == 503
    assert "the family is unknown" in health.json()["error"]["message"]


async def test_an_engine_that_died_makes_health_503_and_refuses_completions(on_stage) -> None:
    async with on_stage() as stage:
        assert (await stage.client.get("/health")).json() == {"status": "ok"}
        stage.failure = MemoryError("no blocks")
        health = await stage.client.get("/health")
        completion = await stage.complete(prompt="x")
    assert health.status_code == completion.status_code == 503
    assert "no blocks" in health.json()["error"]["message"]
    assert completion.json()["error"]["code"] == "engine_failed"


async def test_what_was_loaded_is_closed_once_at_the_end(on_stage) -> None:
    async with on_stage() as stage:
        assert stage.num_closed == 0
    assert stage.num_closed == 1


async def test_models_lists_the_one_served_with_its_context_and_infill_format(on_stage) -> None:
    async with on_stage() as stage:
        reply = (await stage.client.get("/v1/models")).json()
    (card,) = reply["data"]
    assert isinstance(card.pop("created"), int)
    assert card == {
        "id": "letters",
        "object": "model",
        "owned_by": "halfline",
        "max_model_len": 512,
        "infill_format": "letters",
        "infill_order": None,
        "infill_trial": {},
    }
    assert reply["object"] == "list"


async def test_metrics_count_requests_completions_tokens_and_show_the_engine(on_stage) -> None:
    async with on_stage() as stage:
        await stage.complete(prompt="four", max_tokens=3, n=2)
        await stage.complete(prompt="four", max_tokens=2, stream=True)
        await stage.complete(prompt=None)
        await stage.client.get("/v1/completions/cmpl-x/why")
        await stage.client.get("/no/such/page")
        reply = await stage.client.get("/metrics")
    lines = reply.text.splitlines()
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    for line in (
        'halfline_requests_total{route="/v1/completions",status="200"} 2.0',
        'halfline_requests_total{route="/v1/completions",status="400"} 1.0',
        'halfline_requests_total{route="/v1/completions/{completion_id}/why",status="404"} 1.0',
        'halfline_requests_total{route="other",status="404"} 1.0',
        'halfline_request_seconds_count{route="/v1/completions"} 3.0',
        'halfline_completions_total{finish_reason="length"} 3.0',
        'halfline_tokens_total{kind="reused"} 4.0',
        'halfline_tokens_total{kind="computed"} 4.0',
        'halfline_tokens_total{kind="generated"} 8.0',
        "halfline_queue_seconds_count 2.0",
        "halfline_prefill_seconds_sum 0.004",
        'halfline_sequences{state="running"} 1.0',
        'halfline_sequences{state="waiting"} 0.0',
        'halfline_kv_blocks{state="held"} 2.0',
        'halfline_kv_blocks{state="cached"} 3.0',
        'halfline_kv_blocks{state="blank"} 0.0',
        'halfline_kv_evictions_total{contents="tail"} 5.0',
        'halfline_kv_evictions_total{contents="block"} 6.0',
        'halfline_cancel_seconds_bucket{le="0.002"} 0.0',
        'halfline_cancel_seconds_bucket{le="0.005"} 1.0',
        "halfline_preemptions_total 0.0",
        "halfline_steps_total 0.0",
        "halfline_run_tokens_total 0.0",
        'halfline_draft_tokens_total{kind="drafted",source="own"} 7.0',
        'halfline_draft_tokens_total{kind="accepted",source="own"} 4.0',
    ):
        assert line in lines, line


async def test_two_applications_in_one_process_count_apart(on_stage) -> None:
    async with on_stage() as one, on_stage() as other:
        await one.complete(prompt="x")
        assert 'finish_reason="length"' in (await one.client.get("/metrics")).text
        assert 'finish_reason="length"' not in (await other.client.get("/metrics")).text


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("abc-123_x.y:z", True), ("", False), ("a b", False), ("a" * 129, False), ("é", False)],
)
async def test_a_sane_request_id_is_kept_and_any_other_replaced(on_stage, sent, kept) -> None:
    async with on_stage() as stage:
        for path in ("/health", "/nowhere"):
            reply = await stage.client.get(path, headers={"X-Request-Id": sent.encode()})
            assert (reply.headers["x-request-id"] == sent) == kept
            assert reply.headers["x-request-id"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nope", 404),
        ("PUT", "/health", 405),
        ("POST", "/v1/completions/", 404),
        ("GET", "/health/", 404),
    ],
)
async def test_what_is_not_served_is_refused_in_the_shape_of_every_error(
    on_stage, method, path, status
) -> None:
    async with on_stage() as stage:
        reply = await stage.client.request(method, path)
    assert reply.status_code == status
    assert set(reply.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("path", "methods"),
    [("/v1/events", "GET, POST"), ("/health", "GET, HEAD"), ("/v1/completions/x/why", "GET")],
)
async def test_a_wrong_method_is_told_which_are_right(on_stage, path: str, methods: str) -> None:
    async with on_stage() as stage:
        for method in ("PUT", "OPTIONS"):
            reply = await stage.client.request(method, path)
            assert (reply.status_code, reply.headers["allow"]) == (405, methods)


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/metrics"])
async def test_head_answers_where_get_does(on_stage, path: str) -> None:
    async with on_stage() as stage:
        reply = await stage.client.head(path)
        assert reply.status_code == 200
        assert reply.headers["content-type"] == (await stage.client.get(path)).headers["content-type"]


async def test_web_pages_may_call_only_from_the_configured_origins(on_stage) -> None:
    headers = {"Origin": "https://ide.example", "Access-Control-Request-Method": "POST"}
    async with on_stage() as stage:
        reply = await stage.client.options("/v1/completions", headers=headers)
        assert "access-control-allow-origin" not in reply.headers
    async with on_stage(ApiOptions(cors_origins=("https://ide.example",))) as stage:
        reply = await stage.client.options("/v1/completions", headers=headers)
        assert reply.headers["access-control-allow-origin"] == "https://ide.example"
        stranger = await stage.client.options(
            "/v1/completions", headers={**headers, "Origin": "https://evil.example"}
        )
        assert "access-control-allow-origin" not in stranger.headers
