"""POST /v1/completions, whole replies: the exact shape, and which request reaches the pipeline."""

import pytest

from halfline.api.options import ApiOptions
from halfline.errors import EngineFailed, Overloaded, PromptTooLong, UnusableLogits
from halfline.request import Document, Schedule
from halfline.sampling.profiles import Profile

pytestmark = pytest.mark.anyio


async def test_a_reply_has_exactly_openai_s_fields(on_stage) -> None:
    async with on_stage() as stage:
        reply = (await stage.complete(prompt="four", max_tokens=3)).json()
    assert reply.pop("id").startswith("cmpl-")
    assert isinstance(reply.pop("created"), int)
    assert reply == {
        "object": "text_completion",
        "model": "letters",
        "system_fingerprint": "halfline-letters",
        "choices": [{"index": 0, "text": "abc", "logprobs": None, "finish_reason": "length"}],
        "usage": {
            "prompt_tokens": 4,
            "completion_tokens": 3,
            "total_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 2},
        },
    }


async def test_logprobs_are_four_parallel_lists_with_the_chosen_token_among_the_top_ones(on_stage) -> None:
    async with on_stage() as stage:
        reply = (await stage.complete(prompt="x", max_tokens=2, logprobs=1)).json()
        bare = (await stage.complete(prompt="x", max_tokens=2, logprobs=0)).json()
    assert reply["choices"][0]["logprobs"] == {
        "tokens": ["a", "b"],
        "token_logprobs": [-1.0, -1.0],
        "top_logprobs": [{"A": -1.5, "a": -1.0}, {"A": -1.5, "b": -1.0}],
        "text_offset": [0, 1],
    }
    assert bare["choices"][0]["logprobs"]["top_logprobs"] == [{"a": -1.0}, {"b": -1.0}]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("text", ["text"]),
        (["one", "two"], ["one", "two"]),
        ([1, 2, 3], [(1, 2, 3)]),
        ([[1], [2, 3]], [(1,), (2, 3)]),
        ("", [""]),
    ],
)
async def test_every_form_of_prompt_becomes_one_request_per_prompt(on_stage, prompt, expected) -> None:
    async with on_stage() as stage:
        assert (await stage.complete(prompt=prompt)).status_code == 200
        assert [request.prompt for request in stage.pipeline.requests] == expected


async def test_choices_of_several_prompts_are_numbered_prompt_major_and_usage_is_their_sum(on_stage) -> None:
    async with on_stage() as stage:
        reply = (await stage.complete(prompt=["aa", "bbbb", "c"], n=2, max_tokens=1)).json()
        ids = [request.id for request in stage.pipeline.requests]
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2, 3, 4, 5]
    assert reply["usage"]["prompt_tokens"] == 7
    assert reply["usage"]["completion_tokens"] == 6
    assert ids == [reply["id"], f"{reply['id']}.1", f"{reply['id']}.2"]


async def test_best_of_returns_the_choices_with_the_best_mean_logprob(on_stage) -> None:
    async with on_stage() as stage:
        reply = (await stage.complete(prompt="x", n=2, best_of=4, max_tokens=2)).json()
        request = stage.pipeline.requests[0]
        shown = (await stage.complete(prompt="x", n=1, best_of=3, max_tokens=1, logprobs=2)).json()
    assert request.num_choices == 4
    assert len(reply["choices"]) == 2
    assert all(choice["logprobs"] is None for choice in reply["choices"]), "nobody asked to see them"
    assert reply["usage"]["completion_tokens"] == 8, "what was generated counts, returned or not"
    assert shown["choices"][0]["logprobs"]["token_logprobs"] == [-1.0], "choice 0 is the fake's likeliest"


@pytest.mark.parametrize(
    ("body", "document"),
    [
        ({"suffix": "after"}, Document("before", "after", source="127.0.0.1")),
        ({"suffix": ""}, Document("before", "", source="127.0.0.1")),
        ({"metadata": {"path": "a/b.py", "more": [1]}}, Document("before", "", "a/b.py")),
        ({"suffix": "after", "metadata": {"path": "b.py"}}, Document("before", "after", "b.py")),
    ],
)
async def test_a_suffix_or_a_path_makes_the_prompt_a_document(on_stage, body, document) -> None:
    async with on_stage() as stage:
        assert (await stage.complete(prompt="before", **body)).status_code == 200
        request = stage.pipeline.requests[0]
    assert request.prompt == document
    assert request.max_tokens == 128


async def test_fields_left_out_or_null_come_from_the_servers_profile(on_stage) -> None:
    own = Profile(max_new_tokens=5, do_sample=True, temperature=0.5)
    async with on_stage(ApiOptions(profile="own", profiles={"own": own})) as stage:
        await stage.complete(prompt="x")
        nulls = dict.fromkeys(("max_tokens", "temperature", "n", "stop", "suffix", "seed", "logit_bias"))
        await stage.complete(prompt="x", **nulls)
        first, second = stage.pipeline.requests
    assert (first.max_tokens, first.params.temperature) == (5, 0.5)
    assert first.params == second.params
    assert first.max_tokens == second.max_tokens


async def test_a_request_takes_what_it_leaves_out_from_the_profile_it_names(on_stage) -> None:
    async with on_stage() as stage:
        await stage.complete(prompt="x", profile="high-quality")
        await stage.complete(prompt="x", profile="high-quality", temperature=0.2, max_new_tokens=9)
        await stage.complete(prompt="x", profile="high-quality", do_sample=False)
        await stage.complete(prompt="x", do_sample=True)
        unknown = await stage.complete(prompt="x", profile="best")
        requests = stage.pipeline.requests
    got = [(request.params.temperature, request.max_tokens) for request in requests]
    assert got == [(0.7, 512), (0.2, 9), (0.0, 512), (0.1, 128)]
    assert (unknown.status_code, unknown.json()["error"]["param"]) == (400, "profile")
    assert "low-latency, high-quality" in unknown.json()["error"]["message"]


async def test_a_schedule_comes_from_the_request_or_from_a_profile_that_it_does_not_overrule(
    on_stage,
) -> None:
    own = Profile(do_sample=True, schedule=Schedule(by="entropy"))
    async with on_stage(ApiOptions(profile="own", profiles={"own": own})) as stage:
        await stage.complete(prompt="x")
        await stage.complete(prompt="x", temperature=0.3)
        await stage.complete(prompt="x", do_sample=False)
        await stage.complete(prompt="x", schedule={"base_temp": 1.2})
        both = await stage.complete(prompt="x", schedule={}, temperature=0.3)
        wrong = await stage.complete(prompt="x", schedule={"k_min": 0})
        schedules = [request.params.schedule for request in stage.pipeline.requests]
    assert schedules == [Schedule(by="entropy"), None, None, Schedule(base_temp=1.2)]
    assert (both.status_code, both.json()["error"]["param"]) == (400, "schedule")
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "k_min")


async def test_post_processing_is_the_requests_to_decide(on_stage) -> None:
    async with on_stage() as stage:
        await stage.complete(prompt="x", suffix="", postprocess=False, min_confidence=0.25)
        await stage.complete(prompt="x", suffix="")
        wrong = await stage.complete(prompt="x", suffix="", min_confidence=1.5)
        first, second = stage.pipeline.requests
    assert (first.postprocess, first.min_confidence) == (False, 0.25)
    assert (second.postprocess, second.min_confidence) == (None, None)
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "min_confidence")


async def test_every_sampling_field_reaches_the_pipeline(on_stage) -> None:
    sent = {
        "temperature": 1,
        "top_p": 0.5,
        "top_k": 7,
        "min_p": 0.1,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "repetition_penalty": 1.1,
        "seed": 9,
        "stop_token_ids": [3],
        "ignore_eos": True,
    }
    async with on_stage() as stage:
        reply = await stage.complete(prompt="x", stop=["\n", "#"], logit_bias={"5": -3}, echo=True, **sent)
        assert reply.status_code == 200
        request = stage.pipeline.requests[0]
    for name, value in sent.items():
        got = getattr(request.params, name)
        assert got == (tuple(value) if isinstance(value, list) else value), name
    assert request.params.stop == ("\n", "#")
    assert dict(request.params.logit_bias) == {5: -3.0}
    assert request.echo


async def test_minus_one_is_a_seed_and_no_top_k(on_stage) -> None:
    async with on_stage() as stage:
        await stage.complete(prompt="x", seed=-1, top_k=-1)
        params = stage.pipeline.requests[0].params
    assert params.seed == 2**64 - 1
    assert params.top_k == 0


async def test_unknown_fields_are_ignored_and_known_ones_accepted_at_their_neutral_value(on_stage) -> None:
    body = {"nonsense": {"a": [1]}, "user": "me", "min_tokens": 0, "response_format": None, "bad_words": []}
    async with on_stage() as stage:
        assert (await stage.complete(prompt="x", **body)).status_code == 200


async def test_any_content_type_and_any_key_will_do(on_stage) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Authorization": "Bearer undefined"}
    async with on_stage() as stage:
        reply = await stage.client.post("/v1/completions", content=b'{"prompt": "x"}', headers=headers)
    assert reply.status_code == 200


async def test_a_reply_says_what_it_cost(on_stage) -> None:
    async with on_stage() as stage:
        reply = await stage.complete(prompt="four")
        why = await stage.client.get(f"/v1/completions/{reply.json()['id']}/why")
        missing = await stage.client.get("/v1/completions/cmpl-nobody/why")
    assert reply.headers["x-cache"] == "miss"
    assert (
        reply.headers["server-timing"] == "queue;dur=1.00, prefill;dur=2.00, decode;dur=3.00, total;dur=6.00"
    )
    assert reply.headers["openai-processing-ms"] == "6"
    found = {name: value for name, value in reply.headers.items() if name.startswith("fireworks-")}
    assert found == {
        "fireworks-prefill-queue-duration": "0.00100",
        "fireworks-cached-prompt-tokens": "2",
        "fireworks-speculation-matched-tokens": "0",
        "fireworks-server-time-to-first-token": "0.00300",
    }
    assert why.json()["num_prompt_tokens"] == 4
    assert why.json()["num_reused_tokens"] == 2
    assert why.json()["finish_reasons"] == ["length"]
    assert missing.status_code == 404
    assert "cmpl-nobody" in missing.json()["error"]["message"]


@pytest.mark.parametrize(
    ("refusal", "status", "kind", "code"),
    [
        (PromptTooLong(9000, 16, 8192), 400, "invalid_request_error", "context_length_exceeded"),
        (Overloaded(5, 4, 7.4), 429, "rate_limit_error", "overloaded"),
        (EngineFailed(RuntimeError("gone")), 503, "unavailable_error", "engine_failed"),
        (UnusableLogits("the largest logit is nan"), 500, "internal_error", "unusable_logits"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("prompt", ["x", ["x", "y"]])
async def test_what_the_pipeline_refuses_has_its_status_streamed_or_not(
    on_stage, refusal, status, kind, code, stream, prompt
) -> None:
    async with on_stage() as stage:
        stage.pipeline.refusal = refusal
        reply = await stage.complete(prompt=prompt, stream=stream)
        assert reply.status_code == status
        assert reply.json()["error"] == {
            "message": str(refusal),
            "type": kind,
            "param": getattr(refusal, "field", None),
            "code": code,
        }
        assert ("retry-after" in reply.headers) == (status == 429)
        stage.pipeline.refusal = None
        assert (await stage.complete(prompt=prompt)).status_code == 200


async def test_a_bug_is_a_500_that_tells_the_client_nothing_of_its_insides(on_stage) -> None:
    async with on_stage() as stage:
        stage.pipeline.refusal = KeyError("secret")
        reply = await stage.complete(prompt="x")
    assert reply.status_code == 500
    assert reply.json()["error"]["type"] == "internal_error"
    assert "secret" not in reply.text
    assert reply.headers["x-request-id"]


async def test_half_an_answer_is_never_passed_off_as_a_whole_one(on_stage) -> None:
    async with on_stage() as stage:
        stage.pipeline.fails = True
        stage.failure = RuntimeError("engine died")
        # It dies while the request runs: it was well when the request came.
        stage.failure = None
        reply = await stage.complete(prompt="x")
    assert reply.status_code == 503
    assert reply.json()["error"]["code"] == "engine_failed"
