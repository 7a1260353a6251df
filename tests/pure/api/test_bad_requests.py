"""Whatever a client sends, it hears what was wrong, and the server goes on."""

import asyncio
import json
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.api.dialects.openai_body import CompletionBody, read_completion_call
from halfline.api.dialects.unserved import UNSERVED
from halfline.api.options import ApiOptions
from halfline.context.templates.library import TaskLibrary
from halfline.errors import BadRequest

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prompt", None),
        ("prompt", 3),
        ("prompt", []),
        ("prompt", ["a", 1]),
        ("prompt", [1, "a"]),
        ("prompt", [-1]),
        ("prompt", [1.5]),
        ("prompt", [True]),
        ("prompt", [[1], "a"]),
        ("prompt", {"text": "x"}),
        ("prompt", ["x"] * 129),
        ("max_tokens", -1),
        ("max_tokens", 1.5),
        ("max_tokens", "16"),
        ("max_tokens", True),
        ("max_tokens", 2**31),
        ("max_tokens", 10**400),
        ("temperature", "hot"),
        ("temperature", -0.1),
        ("temperature", 10**400),
        ("temperature", [1]),
        ("top_p", 1.01),
        ("top_p", -1),
        ("top_k", -2),
        ("min_p", 2),
        ("repetition_penalty", 0),
        ("presence_penalty", 1e9),
        ("frequency_penalty", "x"),
        ("n", 0),
        ("n", 129),
        ("best_of", 0),
        ("logprobs", 6),
        ("logprobs", -1),
        ("logprobs", True),
        ("stop", 5),
        ("stop", [""]),
        ("stop", ["x"] * 65),
        ("stop", ["x" * 4097]),
        ("stop_token_ids", ["a"]),
        ("stop_token_ids", [-5]),
        ("seed", 2**64),
        ("seed", "lucky"),
        ("logit_bias", {"x": 1}),
        ("logit_bias", {"1": 1e9}),
        ("logit_bias", {"1": "a"}),
        ("logit_bias", [1]),
        ("stream", "yes"),
        ("stream_options", True),
        ("echo", 1),
        ("suffix", 1),
        ("metadata", {"path": 7}),
        ("metadata", "x"),
        ("min_tokens", 4),
        ("response_format", {"type": "json_object"}),
        ("user", 5),
        ("user", "x" * 1025),
        ("stop_token_ids", [1] * 4097),
        ("logit_bias", {str(token_id): 1 for token_id in range(4097)}),
        ("prompt", [2**31]),
        ("prompt", [1] * 513),
        ("prompt", [[1], [1] * 500]),
        ("prompt", ["x"] * 200_000),
        ("max_completion_tokens", -1),
        ("response_format", {"type": "json_object"}),
        ("guided_json", {"type": "object"}),
        ("guided_regex", "a+"),
        ("guided_choice", ["a", "b"]),
        ("guided_grammar", "root ::= 'a'"),
        ("grammar", "root ::= 'a'"),
        ("json_schema", {"type": "object"}),
        ("logits_processors", ["x"]),
        ("n_predict", 8),
        ("repeat_penalty", 1.1),
        ("repeat_penalty", True),
        ("typical_p", 0.5),
        ("mirostat", 2),
        ("dry_multiplier", 0.8),
        ("xtc_probability", 0.1),
        ("bad_words", ["a"] * 100_000),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_a_bad_value_is_a_400_that_names_its_field(on_stage, field, value) -> None:
    async with on_stage() as stage:
        reply = await stage.complete(**{"prompt": "x", field: value})
        assert reply.status_code == 400, reply.text
        error = reply.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert f"{field}" in error["message"]
        assert error["param"] in (field, "n")
        assert len(error["message"]) < 500
        assert (await stage.complete(prompt="still there?")).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"\xff\xfe\x00",
        b'{"prompt": "\\ud800"}',
        b'{"prompt": "\xed\xa0\x80"}',
        b'{"prompt": "x", "temperature": NaN}',
        b'{"prompt": "x", "temperature": Infinity}',
        b'{"prompt": "x", "top_p": -Infinity}',
        b'{"prompt": "x", "logit_bias": {"1": NaN}}',
        b'{"prompt": "x", "nobody_s": 1e999}',
        b'{"prompt": "x", "seed": ' + b"9" * 100_000 + b"}",
        b"[" * 100_000,
        b'{"prompt": "x", "other": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"prompt": "x", "other": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
        b'{"prompt": "x"} trailing',
    ],
    ids=lambda body: repr(body[:30]),
)
async def test_a_body_that_is_no_proper_json_is_a_400_with_the_reason(on_stage, body) -> None:
    async with on_stage() as stage:
        reply = await stage.client.post("/v1/completions", content=body)
        assert reply.status_code == 400
        assert len(reply.json()["error"]["message"]) > 20
        assert (await stage.complete(prompt="still there?")).status_code == 200


async def test_a_name_of_megabytes_is_not_said_back(on_stage) -> None:
    name = "n" * 100_000
    async with on_stage(tasks=TaskLibrary()) as stage:
        for path, body in (
            ("/v1/tasks/explain", {name: 1}),
            ("/v1/completions", {"prompt": "x", "logit_bias": {name: 1}}),
            ("/completion", {"prompt": "x", "stop": {name: 1}}),
        ):
            reply = await stage.client.post(path, json=body)
            assert reply.status_code == 400 and len(reply.content) < 1000, path


@pytest.mark.parametrize(
    "body",
    [
        {"best_of": 1, "n": 2},
        {"best_of": 2, "n": 1, "stream": True},
        {"stream": True, "stream_options": {"continuous_usage_stats": True}},
        {"prompt": ["a", "b"], "suffix": "x"},
        {"prompt": [1, 2], "metadata": {"path": "a.py"}},
        {"prompt": ["a"] * 65, "n": 2},
    ],
)
async def test_fields_that_contradict_each_other_are_a_400(on_stage, body) -> None:
    async with on_stage() as stage:
        reply = await stage.complete(**{"prompt": "x", **body})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"]


async def test_a_body_over_the_limit_is_a_413_before_it_is_read(on_stage) -> None:
    async with on_stage() as stage:
        reply = await stage.complete(prompt="x" * 20_000_000)
        assert reply.status_code == 413
        assert str(ApiOptions().max_body_bytes) in reply.json()["error"]["message"]
        assert (await stage.complete(prompt="still there?")).status_code == 200


async def test_a_body_of_undeclared_length_is_counted_as_it_comes(on_stage) -> None:
    num_read = 0

    async def endless():
        nonlocal num_read
        while True:
            num_read += 1
            yield b" " * 1000

    async with on_stage(ApiOptions(max_body_bytes=10_000)) as stage:
        reply = await stage.client.post("/v1/completions", content=endless())
    assert reply.status_code == 413
    assert num_read <= 12


async def test_a_body_that_trickles_is_a_408_in_time_and_keeps_nobody_waiting(on_stage) -> None:
    async def trickle():
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    async with on_stage(ApiOptions(body_timeout_s=0.2)) as stage:
        slow = asyncio.ensure_future(stage.client.post("/v1/completions", content=trickle()))
        await asyncio.sleep(0.05)
        assert (await stage.complete(prompt="x")).status_code == 200
        assert not slow.done()
        reply = await slow
    assert reply.status_code == 408
    assert reply.json()["error"]["code"] == "body_too_slow"
    assert "within 0.2 seconds" in reply.json()["error"]["message"]
    assert reply.headers["connection"] == "close"


@pytest.mark.parametrize("stream", [False, True])
async def test_once_the_body_is_there_its_answer_may_take_longer(on_stage, stream: bool) -> None:
    async with on_stage(ApiOptions(body_timeout_s=0.05)) as stage:
        stage.pipeline.gate = asyncio.Event()
        running = asyncio.ensure_future(stage.complete(prompt="x", stream=stream))
        await asyncio.sleep(0.2)
        stage.pipeline.gate.set()
        assert (await running).status_code == 200


_FLOODS = {
    "ids": (b'{"prompt": [', b"1,", b"1]}"),
    "lists": (b'{"prompt": [', b"[],", b"[]]}"),
    "texts": (b'{"prompt": [', b'"a",', b'"a"]}'),
    "lists of ids": (b'{"prompt": [[', b"1,", b"1]]}"),
    "stops": (b'{"prompt": "x", "stop": [', b"[],", b"[]]}"),
    "stop ids": (b'{"prompt": "x", "stop_token_ids": [', b'"",', b'""]}'),
    "unserved": (b'{"prompt": "x", "bad_words": [', b"[],", b"[]]}"),
}


@pytest.mark.parametrize("flood", _FLOODS)
async def test_a_body_of_millions_of_entries_is_refused_off_the_event_loop_and_costs_little(
    on_stage, flood: str
) -> None:
    """Trying every shape on every entry took 6 to 12 seconds, in which nobody else was answered."""
    head, entry, tail = _FLOODS[flood]
    body = head + entry * ((8_000_000 - len(head) - len(tail)) // len(entry)) + tail
    readers: list[threading.Thread] = []
    async with on_stage() as stage:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "halfline.api.completions.read_completion_call",
                lambda *args: (readers.append(threading.current_thread()), read_completion_call(*args))[1],
            )
            started_at = time.process_time()
            reply = await stage.client.post("/v1/completions", content=body)
            assert time.process_time() - started_at < 4.0
    assert reply.status_code == 400
    assert len(reply.content) < 500
    assert readers and threading.main_thread() not in readers


@pytest.mark.parametrize(
    "neutral",
    [
        {"response_format": {"type": "text"}},
        {"guided_json": None, "guided_regex": None, "guided_choice": None, "guided_grammar": None},
        {"grammar": "", "json_schema": None, "logits_processors": None, "n_predict": -1},
        {"repeat_penalty": 1, "typical_p": 1.0, "mirostat": 0, "dry_multiplier": 0, "xtc_probability": 0.0},
        {"mirostat_tau": 5.0, "dry_base": 1.75, "nobody_knows": [1, 2, 3]},
    ],
)
async def test_a_field_that_asks_for_nothing_is_accepted(on_stage, neutral: dict[str, object]) -> None:
    async with on_stage() as stage:
        assert (await stage.complete(prompt="x", **neutral)).status_code == 200


async def test_max_completion_tokens_is_another_name_of_max_tokens(on_stage) -> None:
    async with on_stage() as stage:
        reply = await stage.complete(prompt="x", max_completion_tokens=3)
        assert reply.json()["usage"]["completion_tokens"] == 3
        both = await stage.complete(prompt="x", max_completion_tokens=3, max_tokens=3)
        assert both.status_code == 400
        assert "max_completion_tokens" in both.json()["error"]["message"]


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from([2**31, 2**64, -1, 10**30, "", "\x00", "é", "\U0001f600"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
_FIELDS = [*CompletionBody.model_fields, *UNSERVED, "unheard_of"]
_BODIES = st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=6)


@given(body=_BODIES, prompt=st.none() | st.text(max_size=20) | st.lists(st.integers(0, 9), max_size=3))
@settings(max_examples=100, deadline=None)
def test_any_json_is_either_understood_or_a_bad_request(body, prompt) -> None:
    if prompt is not None:
        body = {**body, "prompt": prompt}
    try:
        call = read_completion_call(json.dumps(body).encode(), "cmpl-1", "local", ApiOptions(), 512)
    except BadRequest as error:
        assert str(error)
    else:
        assert call.requests
        assert all(request.num_choices >= call.num_choices for request in call.requests)


_VALID = b'{"prompt": ["a", "b"], "n": 2, "temperature": 0.5, "stop": ["\\u00e9"], "logit_bias": {"7": -1.5}}'


@given(start=st.integers(0, len(_VALID)), length=st.integers(0, 9), patch=st.binary(max_size=6))
@settings(max_examples=150, deadline=None)
def test_any_damage_to_a_body_is_either_harmless_or_a_bad_request(start, length, patch) -> None:
    body = _VALID[:start] + patch + _VALID[start + length :]
    try:
        call = read_completion_call(body, "cmpl-1", "local", ApiOptions(), 512)
    except BadRequest as error:
        assert str(error)
    else:
        assert call.requests
