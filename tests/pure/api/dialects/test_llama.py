"""llama-server's dialect: what its fields ask of the pipeline, and the shapes of its replies."""

import json

import pytest

from halfline.api.dialects import llama_tools
from halfline.request import Bounds, Document, Part

pytestmark = pytest.mark.anyio

INFILL = {"input_prefix": "a\n", "input_suffix": "\nz\n", "prompt": "b"}


async def asked(on_stage, path: str, **body: object):
    async with on_stage() as stage:
        reply = await stage.client.post(path, json=body)
        return reply, stage.pipeline.requests


async def test_infill_is_the_document_around_the_cursor_with_parts_of_others(on_stage) -> None:
    extra = [{"text": "x = 1", "filename": "o.py", "time": [1, 2]}, {"text": "y"}]
    reply, (request,) = await asked(
        on_stage, "/infill", **INFILL, input_extra=extra, n_indent=4, t_max_predict_ms=250, n_predict=3
    )
    assert reply.json()["content"] == "abc"
    assert request.prompt == Document(
        "a\nb", "\nz\n", None, (Part("x = 1", "o.py"), Part("y")), source="127.0.0.1"
    )
    assert request.bounds == Bounds(min_indent=4, line_time_ms=250)
    assert request.identity is None
    assert (request.max_tokens, request.priority) == (3, "interactive")


async def test_a_warm_up_computes_the_prompt_as_idle_work(on_stage) -> None:
    reply, (request,) = await asked(on_stage, "/infill", **INFILL, n_predict=0, response_fields=[""])
    assert reply.json() == {}
    assert (request.max_tokens, request.priority) == (0, "idle")


@pytest.mark.parametrize(
    ("body", "temperatures", "counts"),
    [
        ({"n_cmpl": 3}, [0.0, 0.8], [1, 2]),
        ({"n_cmpl": 3, "temperature": 0.3}, [0.3], [3]),
        ({"n": 2, "temperature": 0}, [0.0], [2]),
        ({}, [0.0], [1]),
    ],
)
async def test_several_choices_without_a_temperature_are_the_likeliest_and_others(
    on_stage, body, temperatures, counts
) -> None:
    reply, requests = await asked(on_stage, "/infill", **INFILL, n_predict=2, **body)
    assert [request.params.temperature for request in requests] == temperatures
    assert [request.num_choices for request in requests] == counts
    read = reply.json()
    if sum(counts) == 1:
        assert read["index"] == 0
    else:
        assert [each["index"] for each in read] == list(range(sum(counts)))


async def test_filters_that_samplers_does_not_name_are_off(on_stage) -> None:
    filters = {"top_k": 40, "top_p": 0.9, "min_p": 0.1, "repeat_penalty": 1.1}
    _, (all_on,) = await asked(on_stage, "/infill", **INFILL, n_predict=1, **filters)
    _, (some,) = await asked(
        on_stage, "/infill", **INFILL, n_predict=1, **filters, samplers=["top_k", "infill"]
    )
    _, (short,) = await asked(on_stage, "/infill", **INFILL, n_predict=1, **filters, samplers="km")
    params = all_on.params
    assert (params.top_k, params.top_p, params.min_p, params.repetition_penalty) == (40, 0.9, 0.1, 1.1)
    params = some.params
    assert (params.top_k, params.top_p, params.min_p, params.repetition_penalty) == (40, 1.0, 0.0, 1.0)
    assert (short.params.top_k, short.params.top_p, short.params.min_p) == (40, 1.0, 0.1)


async def test_prompts_are_texts_with_special_tokens_or_ids_or_both_or_lists_of_them(on_stage) -> None:
    text = [ord(c) - 33 + 3 for c in "ab"]  # the byte alphabet begins with "!"
    for prompt, expected in (
        ("ab", [tuple(text)]),
        ("<|im_end|>ab", [(2, *text)]),
        ([5, "ab", 7], [(5, *text, 7)]),
        (["ab", "ab"], [tuple(text)] * 2),
        ([[5], "ab"], [(5,), tuple(text)]),
    ):
        reply, requests = await asked(on_stage, "/completion", prompt=prompt, n_predict=1)
        assert [request.prompt for request in requests] == expected
        assert isinstance(reply.json(), list) == (len(expected) > 1)


async def test_an_endless_completion_takes_the_room_there_is(on_stage) -> None:
    _, (request,) = await asked(on_stage, "/completions", prompt="ab", n_predict=-1)
    assert request.max_tokens == 512 - 2
    reply, _ = await asked(on_stage, "/completion", prompt="x" * 600, n_predict=4)
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert (error["type"], error["n_ctx"]) == ("exceed_context_size_error", 512)


async def test_logit_biases_come_as_pairs_or_an_object_and_false_bans(on_stage) -> None:
    for given in ([[5, 1.5], ["a", False]], {"5": 1.5, "a": False}):
        _, (request,) = await asked(on_stage, "/completion", prompt="x", n_predict=1, logit_bias=given)
        assert request.params.logit_bias == {5: 1.5, ord("a") - 33 + 3: -1000.0}


async def test_response_fields_pick_by_path_and_keep_the_path_as_the_name(on_stage) -> None:
    names = ["content", "timings/prompt_n", "generation_settings/top_k", "no/such", "content/deeper"]
    reply, _ = await asked(on_stage, "/infill", **INFILL, n_predict=2, response_fields=names)
    assert reply.json() == {"content": "ab", "timings/prompt_n": 2, "generation_settings/top_k": 0}


async def test_a_stream_has_parts_then_one_last_event_and_no_done(on_stage) -> None:
    reply, _ = await asked(on_stage, "/completion", prompt="x", n_predict=2, stream=True)
    events = [json.loads(event.removeprefix("data: ")) for event in reply.text.split("\n\n")[:-1]]
    assert [event["content"] for event in events] == ["a", "b", ""]
    assert [event["stop"] for event in events] == [False, False, True]
    assert events[-1]["stop_type"] == "limit"
    assert events[-1]["timings"]["predicted_n"] == 2


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("ended_by", "stop_type", "word"),
    [
        ("line_time", "limit", ""),
        ("min_indent", "limit", ""),
        ("stop", "word", "!"),
        ("scope", "eos", ""),
        (None, "eos", ""),
    ],
)
async def test_the_stop_type_is_by_what_ended_the_answer(on_stage, stream, ended_by, stop_type, word) -> None:
    async with on_stage() as stage:
        stage.pipeline.ends_with, stage.pipeline.ended_by = "stop", ended_by
        body = {"prompt": "x", "n_predict": 2, "stop": ["!"], "stream": stream}
        reply = await stage.client.post("/completion", json=body)
    last = json.loads(reply.text.strip().split("\n\n")[-1].removeprefix("data: "))
    assert (last["stop_type"], last["stopping_word"]) == (stop_type, word)


async def test_what_changes_the_answer_and_is_not_served_is_refused(on_stage) -> None:
    for field, value in (
        ("grammar", 'root ::= "a"'),
        ("mirostat", 2),
        ("lora", [{"id": 0, "scale": 1.0}]),
        ("min_keep", 4),
        ("post_sampling_probs", True),
    ):
        reply, requests = await asked(on_stage, "/completion", prompt="x", **{field: value})
        assert reply.status_code == 400 and not requests
        assert field in reply.json()["error"]["message"]
    for ignored in (
        {"id_slot": 3, "cache_prompt": False, "mirostat": 0, "grammar": "", "lora": [], "n_keep": 8},
        {"timings_per_token": True, "return_progress": True, "sse_ping_interval": 30, "min_keep": 0},
    ):
        reply, _ = await asked(on_stage, "/completion", prompt="x", n_predict=1, **ignored)
        assert reply.status_code == 200


async def test_slots_show_how_many_run_and_nothing_of_what(on_stage) -> None:
    async with on_stage() as stage:
        slots = (await stage.client.get("/slots")).json()
        props = (await stage.client.get("/props")).json()
        refused = await stage.client.post("/slots/0?action=save")
        free = await stage.client.get("/slots?fail_on_no_slot=1")
        stage.num_running = len(slots)
        full = await stage.client.get("/slots?fail_on_no_slot=1")
        unasked = await stage.client.get("/slots")
    assert [slot["is_processing"] for slot in slots] == [True, False, False, False]
    assert all("prompt" not in slot for slot in slots)
    assert props["total_slots"] == len(slots)
    assert props["default_generation_settings"]["n_ctx"] == 512
    assert refused.status_code == 400
    assert [each.status_code for each in (free, full, unasked)] == [200, 503, 200]
    assert full.json()["error"]["type"] == "unavailable_error"


async def test_more_tokens_than_may_be_told_are_refused_and_parts_of_characters_are_bytes(
    on_stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_tools, "_MOST_TOKENS", 4)
    reply, _ = await asked(on_stage, "/tokenize", content='a"é', with_pieces=True)
    assert [each["piece"] for each in reply.json()["tokens"]] == ["a", '"', [195], [169]]
    plain, _ = await asked(on_stage, "/tokenize", content='a"é')
    assert plain.json()["tokens"] == [each["id"] for each in reply.json()["tokens"]]
    refused, _ = await asked(on_stage, "/tokenize", content="abcde")
    assert refused.status_code == 400 and "`content` has 5 tokens" in refused.json()["error"]["message"]
