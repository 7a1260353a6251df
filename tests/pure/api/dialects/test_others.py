"""Tabby, Ollama, Mistral, Copilot and OpenAI's chats: what their fields ask of the pipeline."""

import time

import pytest

from halfline.request import Document, Identity, Part

pytestmark = pytest.mark.anyio

MAX_CONTEXT = 512  # the stage's


async def asked(on_stage, path: str, headers: dict[str, str] | None = None, **body: object):
    async with on_stage() as stage:
        reply = await stage.client.post(path, json=body, headers=headers)
        return reply, stage.pipeline.requests


async def test_tabby_is_told_from_openai_by_the_body(on_stage) -> None:
    segments = {
        "prefix": "a",
        "suffix": "z",
        "filepath": "x.py",
        "declarations": [{"filepath": "d.py", "body": "d"}],
        "relevant_snippets_from_recently_opened_files": [{"filepath": "r.py", "body": "r", "score": 1}],
        "clipboard": "c",
        "edit_history": {"anything": 1},
    }
    reply, (request,) = await asked(
        on_stage, "/v1/completions", segments=segments, user="ada", language="python"
    )
    assert set(reply.json()) == {"id", "choices", "mode"}
    assert request.prompt == Document("a", "z", "x.py", (Part("r", "r.py"), Part("d", "d.py"), Part("c")))
    assert request.identity == Identity("local", "ada", "x.py")
    for clipboard in (" \n", "c" * 4097):
        unfit = {"prefix": "a", "clipboard": clipboard}
        _, (request,) = await asked(on_stage, "/v1/completions", segments=unfit)
        assert isinstance(request.prompt, Document) and request.prompt.parts == ()
    reply, (request,) = await asked(on_stage, "/v1/completions", prompt="p", segments=segments)
    assert reply.json()["object"] == "text_completion" and request.prompt == "p"
    _, (request,) = await asked(on_stage, "/v1/completions", debug_options={"raw_prompt": "raw"})
    assert request.prompt == "raw"
    reply, _ = await asked(on_stage, "/v1/completions", segments=segments, mode="next_edit_suggestion")
    assert reply.status_code == 400


async def test_ollama_wraps_a_prompt_in_a_chat_only_where_nothing_says_otherwise(on_stage) -> None:
    wrapped, (chat,) = await asked(on_stage, "/api/generate", prompt="hi", system="s", stream=False)
    assert isinstance(chat.prompt, tuple) and chat.prompt.count(1) == 3
    assert wrapped.json()["context"][: len(chat.prompt)] == list(chat.prompt)
    _, (further,) = await asked(on_stage, "/api/generate", prompt="hi", system="s", context=[7, 8])
    assert further.prompt == (7, 8, *chat.prompt)
    for alone in ({"raw": True}, {"suffix": "z"}):
        refused, _ = await asked(on_stage, "/api/generate", prompt="hi", context=[7, 8], **alone)
        assert refused.status_code == 400 and "context" in refused.json()["error"]
    assert (await asked(on_stage, "/api/generate", prompt="hi", context="x"))[0].status_code == 400
    _, (raw,) = await asked(on_stage, "/api/generate", prompt="hi", raw=True)
    assert raw.prompt == tuple(ord(c) - 33 + 3 for c in "hi")
    _, (infill,) = await asked(on_stage, "/api/generate", prompt="a", suffix="z")
    assert infill.prompt == Document("a", "z", source="127.0.0.1")
    _, (marked,) = await asked(on_stage, "/api/generate", prompt="<PRE> a <SUF>z <MID>")
    assert marked.prompt == Document("a", "z", source="127.0.0.1")


async def test_ollama_s_conversation_goes_on_as_long_as_there_is_room_and_no_longer(on_stage) -> None:
    _, (chat,) = await asked(on_stage, "/api/generate", prompt="hi")
    room = MAX_CONTEXT - len(chat.prompt)
    for options in ({}, {"num_predict": 1000}):
        body = {"prompt": "hi", "options": options}
        _, (last,) = await asked(on_stage, "/api/generate", **body, context=[7] * (room - 5))
        assert (len(last.prompt), last.max_tokens) == (MAX_CONTEXT - 5, 5)
        full, none = await asked(on_stage, "/api/generate", **body, context=[7] * room)
        assert (full.status_code, none) == (400, []) and "shorten" in full.json()["error"]


async def test_ollama_s_options_steer_sampling_or_are_nobody_s_business(on_stage) -> None:
    options = {
        "num_predict": 5,
        "temperature": 0.4,
        "top_k": 7,
        "stop": ["\n"],
        "seed": 3,
        "num_ctx": 4096,
        "mirostat": 0,
    }
    _, (request,) = await asked(on_stage, "/api/generate", prompt="a", suffix="z", options=options)
    params = request.params
    assert (request.max_tokens, params.temperature, params.top_k, params.stop, params.seed) == (
        5,
        0.4,
        7,
        ("\n",),
        3,
    )
    for bad in ({"options": {"mirostat": 2}}, {"format": "json"}, {"images": ["x"]}, {"think": True}):
        reply, _ = await asked(on_stage, "/api/generate", prompt="a", **bad)
        assert reply.status_code == 400 and isinstance(reply.json()["error"], str)


async def test_ollama_without_a_prompt_only_wants_the_model_there(on_stage) -> None:
    for path, body in (("/api/generate", {}), ("/api/chat", {"messages": []})):
        reply, requests = await asked(on_stage, path, **body)
        assert (reply.json()["done_reason"], requests) == ("load", [])


async def test_mistral_asks_for_a_document_and_hears_a_chat(on_stage) -> None:
    reply, (request,) = await asked(on_stage, "/v1/fim/completions", prompt="a", max_tokens=2, random_seed=9)
    assert request.prompt == Document("a", "", source="127.0.0.1")
    assert request.params.seed == 9
    assert reply.json()["choices"][0]["message"] == {"role": "assistant", "content": "ab"}


async def test_copilot_s_speculation_gives_way_to_typing(on_stage) -> None:
    path = "/v1/engines/any/completions"
    body = {"prompt": "a", "suffix": "z", "max_tokens": 1, "extra": {"language": "go", "context": ["c"]}}
    _, (typed,) = await asked(on_stage, path, **body)
    _, (ahead,) = await asked(on_stage, path, {"X-Copilot-Speculative": "true"}, **body)
    assert typed.prompt == Document("a", "z", None, (Part("c"),), source="127.0.0.1")
    assert (typed.priority, ahead.priority) == ("interactive", "batch")


async def test_copilot_is_given_a_token_that_opens_nothing(on_stage) -> None:
    async with on_stage() as stage:
        reply = await stage.client.get("/copilot_internal/v2/token", headers={"Authorization": "token gho_x"})
    told = reply.json()
    assert (reply.status_code, told["token"]) == (200, "none")
    assert 0 < told["refresh_in"] < told["expires_at"] - time.time() + 1


async def test_a_chat_s_answer_has_its_role_first_in_a_stream_and_logprobs_where_asked(on_stage) -> None:
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}], "max_tokens": 2}
    reply, (request,) = await asked(on_stage, "/v1/chat/completions", **body, logprobs=True, top_logprobs=1)
    content = reply.json()["choices"][0]["logprobs"]["content"]
    assert [(token["token"], token["bytes"]) for token in content] == [("a", [97]), ("b", [98])]
    assert len(content[0]["top_logprobs"]) == 1
    assert reply.json()["object"] == "chat.completion"
    assert request.max_tokens == 2
    streamed, _ = await asked(on_stage, "/v1/chat/completions", **body, stream=True)
    assert streamed.text.index('"role":"assistant"') < streamed.text.index('"content":"a"')
    assert streamed.text.endswith("data: [DONE]\n\n")


async def test_whatever_is_refused_below_ollama_s_path_is_told_in_its_words(on_stage) -> None:
    async with on_stage() as stage:
        for method, path in (("POST", "/api/pull"), ("DELETE", "/api/tags"), ("GET", "/api/a%2f..%2fb")):
            reply = await stage.client.request(method, path)
            assert reply.status_code in (400, 404, 405) and list(reply.json()) == ["error"]
            assert isinstance(reply.json()["error"], str), path


async def test_a_chat_that_leaves_no_room_is_not_said_to_have_asked_for_more(on_stage) -> None:
    messages = [{"role": "user", "content": "x" * 600}]
    async with on_stage() as stage:
        for path in ("/v1/chat/completions", "/api/chat"):
            said = (await stage.client.post(path, json={"messages": messages})).text
            assert "leaves no room for an answer" in said and "asked for" not in said
        reply = await stage.client.post("/v1/chat/completions", json={"messages": messages, "max_tokens": 7})
        assert "its answer up to 7" in reply.json()["error"]["message"]


async def test_a_chat_has_the_room_there_is_and_no_tools(on_stage) -> None:
    messages = [{"role": "user", "content": "hi"}]
    _, (request,) = await asked(on_stage, "/v1/chat/completions", messages=messages)
    assert request.max_tokens == 512 - len(request.prompt)
    for bad in (
        {"messages": [{"role": "user", "content": "x" * 600}]},
        {"messages": messages, "tools": [{"type": "function"}]},
        {"messages": messages, "response_format": {"type": "json_object"}},
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        {"messages": [{"content": "x"}]},
        {"messages": []},
    ):
        reply, _ = await asked(on_stage, "/v1/chat/completions", **bad)
        assert reply.status_code == 400, bad
