"""What a body says about whose turn it is, what replaces what, and how a client calls a completion off."""

import asyncio
import json

import pytest

from halfline.api.dialects.openai_body import read_completion_call
from halfline.api.options import ApiOptions
from halfline.errors import BadRequest, HalflineError, Overloaded, UnusableLogits
from halfline.request import CompletionRequest, Identity

pytestmark = pytest.mark.anyio


def understood(**body: object) -> CompletionRequest:
    return read_completion_call(json.dumps(body).encode(), "cmpl-1", "me", ApiOptions(), 512).requests[0]


async def test_user_priority_and_deadline_reach_the_request() -> None:
    asked = understood(prompt="x", user="ann", priority="idle", deadline_ms=120)
    assert (asked.tenant, asked.user, asked.priority, asked.deadline_ms) == ("me", "ann", "idle", 120)
    plain = understood(prompt="x")
    assert (plain.user, plain.priority, plain.deadline_ms) == ("", "interactive", None)


async def test_a_prompt_that_is_only_scored_is_batch_work_unless_the_client_says_otherwise() -> None:
    scored = {"prompt": "x", "echo": True, "logprobs": 1, "max_tokens": 0}
    assert understood(**scored).priority == "batch"
    assert understood(**scored, priority="interactive").priority == "interactive"
    assert understood(**{**scored, "max_tokens": 1}).priority == "interactive"


async def test_only_a_user_and_a_path_together_make_an_identity() -> None:
    both = understood(prompt="x", user="ann", metadata={"path": "a.py"})
    assert both.identity == Identity("me", "ann", "a.py")
    assert understood(prompt="x", metadata={"path": "a.py"}).identity is None
    assert understood(prompt="x", user="", metadata={"path": "a.py"}).identity is None
    assert understood(prompt="x", user="ann", suffix="y").identity is None
    assert understood(prompt="x", user="ann").identity is None


async def test_an_editor_may_name_its_cursor_in_a_header_of_any_dialect(on_stage) -> None:
    infill = {"input_prefix": "x", "input_suffix": "", "n_predict": 2}
    asked = [
        ("/infill", infill, "vim-1"),
        ("/infill", {**infill, "n_predict": 0}, "vim-1"),  # a warm-up
        ("/infill", {**infill, "n_cmpl": 2}, "vim-1"),  # two requests of one call
        ("/api/generate", {"prompt": "x", "suffix": "y", "stream": False}, "vim-2"),
        ("/v1/completions", {"prompt": "x", "max_tokens": 1}, "vim-1"),  # raw: no cursor
        ("/v1/completions", {"prompt": "x", "user": "ann", "metadata": {"path": "a.py"}}, "vim-1"),
    ]
    async with on_stage() as stage:
        for path, body, cursor in asked:
            reply = await stage.client.post(path, json=body, headers={"X-Halfline-Cursor": cursor})
            assert reply.status_code == 200
    identities = [request.identity for request in stage.pipeline.requests]
    first, warm_up, *both, other, raw, named = identities
    assert first == both[0] and first is not None and first.tenant == "local"
    assert len({first, both[1], other}) == 3 and None not in both
    assert warm_up is None and raw is None
    assert named == Identity("local", "ann", "a.py"), "what the dialect says counts"


async def test_long_names_of_cursors_that_differ_at_their_ends_are_two(on_stage) -> None:
    infill = {"input_prefix": "x", "input_suffix": "", "n_predict": 2}
    async with on_stage() as stage:
        for end in "ab":
            headers = {"X-Halfline-Cursor": "/home/ann/" * 40 + end}
            assert (await stage.client.post("/infill", json=infill, headers=headers)).status_code == 200
    one, other = (request.identity for request in stage.pipeline.requests)
    assert one != other and None not in (one, other)
    assert len(one.user) < 100, "a server remembers digests, not whatever it is sent"


async def test_without_a_name_no_request_of_any_dialect_can_replace_another(on_stage) -> None:
    bodies = {
        "/infill": {"input_prefix": "x", "input_suffix": "", "n_predict": 2},
        "/api/generate": {"prompt": "x", "suffix": "y", "stream": False},
        "/v1/fim/completions": {"prompt": "x", "suffix": "y"},
        "/v1/engines/copilot-codex/completions": {"prompt": "x", "suffix": "y"},
        "/v1/completions": {"segments": {"prefix": "x", "filepath": "a.py"}},
    }
    async with on_stage() as stage:
        for path, body in bodies.items():
            assert (await stage.client.post(path, json=body)).status_code == 200
    assert [request.identity for request in stage.pipeline.requests] == [None] * len(bodies)


@pytest.mark.parametrize(
    ("field", "value"), [("priority", "urgent"), ("priority", 0), ("deadline_ms", 0), ("deadline_ms", "5")]
)
async def test_an_impossible_turn_is_named(field: str, value: object) -> None:
    with pytest.raises(BadRequest) as refusal:
        understood(prompt="x", **{field: value})
    assert refusal.value.field == field


async def test_a_superseded_answer_is_a_whole_reply_and_says_so(on_stage) -> None:
    async with on_stage() as stage:
        stage.pipeline.ends_with = "superseded"
        reply = await stage.complete(prompt="x", max_tokens=3)
        plain = await stage.complete(prompt="x", max_tokens=3, stream=True)
    assert reply.status_code == 200
    assert reply.headers["x-halfline-superseded"] == "1"
    assert reply.json()["superseded"] is True
    assert reply.json()["choices"][0]["finish_reason"] == "length"
    events = [json.loads(line[6:]) for line in plain.text.splitlines() if line.startswith("data: {")]
    assert [event.get("superseded") for event in events] == [None, None, True]
    assert events[-1]["choices"][0]["finish_reason"] == "length"
    assert "x-halfline-superseded" not in plain.headers, "they were sent before it happened"


async def test_a_stream_superseded_before_its_first_event_says_so_in_its_headers(on_stage) -> None:
    async with on_stage() as stage:
        stage.pipeline.ends_with = "superseded"
        reply = await stage.complete(prompt="x", max_tokens=1, stream=True)
        usual = await stage.complete(prompt="x", max_tokens=2)
    assert reply.headers["x-halfline-superseded"] == "1"
    assert usual.headers["x-halfline-superseded"] == "1"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_running_completion_is_called_off_by_the_clients_own_name_for_it(on_stage, stream) -> None:
    async with on_stage() as stage:
        stage.pipeline.gate = asyncio.Event()
        body = {"prompt": ["x", "y"], "max_tokens": 2, "stream": stream}
        headers = {"X-Request-Id": "keystroke-7"}
        task = asyncio.create_task(stage.client.post("/v1/completions", json=body, headers=headers))
        while len(stage.pipeline.requests) < 2:
            await asyncio.sleep(0)
        unknown = await stage.client.post("/v1/completions/keystroke-8/cancel")
        by_name = await stage.client.post("/v1/completions/keystroke-7/cancel")
        by_id = await stage.client.post(f"/v1/completions/{stage.pipeline.requests[0].id}/cancel")
        stage.pipeline.gate.set()
        await task
        late = await stage.client.post("/v1/completions/keystroke-7/cancel")
    assert (unknown.status_code, late.status_code) == (404, 404)
    assert unknown.json()["error"]["code"] == "not_running"
    assert by_name.json() == {"id": "keystroke-7", "cancelled": True}
    assert by_id.status_code == 200
    assert stage.pipeline.called_off == [request.id for request in stage.pipeline.requests] * 2


@pytest.mark.parametrize(
    ("error", "code"),
    [(Overloaded(9, 8, 3.0), "overloaded"), (UnusableLogits("the largest logit is nan"), "unusable_logits")],
)
async def test_a_stream_that_is_given_up_after_its_first_event_ends_with_the_reason(
    on_stage, error: HalflineError, code: str
) -> None:
    async with on_stage() as stage:
        stage.pipeline.sheds = error
        reply = await stage.complete(prompt="x", max_tokens=3, stream=True)
    lines = [line for line in reply.text.splitlines() if line]
    assert json.loads(lines[-2][6:])["error"] == {
        "message": str(error),
        "type": "rate_limit_error" if code == "overloaded" else "internal_error",
        "param": None,
        "code": code,
    }
    assert lines[-1] == "data: [DONE]"


async def test_metrics_tell_cancel_latency_superseded_and_coalesced(on_stage) -> None:
    async with on_stage() as stage:
        stage.pipeline.ends_with = "superseded"
        await stage.complete(prompt="x", max_tokens=3)
        text = (await stage.client.get("/metrics")).text
    assert 'halfline_completions_total{finish_reason="superseded"} 1.0' in text
    assert 'halfline_cancel_seconds_bucket{le="0.001"} 0.0' in text
    assert 'halfline_cancel_seconds_bucket{le="+Inf"} 1.0' in text
    assert "halfline_coalesced_total 0.0" in text
