"""Every client's own request gets an answer that the client can read, with its bugs and its idea of the protocol."""

import re
from typing import Any

import httpx
import ollama
import openai
import pytest


def test_every_golden_request_is_accepted(ask, golden_names) -> None:
    assert len(golden_names) >= 36
    for name in golden_names:
        short = {"max_tokens": 8} if name in ("llama_vim_instruct", "llama_vscode_edit") else {}
        assert ask(name, **short).status == (400 if name == "llama_vscode_fim_too_many" else 200), name


# llama.vim


def test_llama_vim_finds_the_fields_it_asked_for_under_their_own_names(ask, golden) -> None:
    """Its header is `Bearer ` with nothing behind, its model is "", its times are lists."""
    reply = ask("llama_vim_fim")
    assert re.search(r'"content":"', reply.body.decode()), "what lacks it is thrown away unread"
    read = reply.json
    assert set(read) == set(golden("llama_vim_fim")["body"]["response_fields"])
    assert read["content"]
    assert read["truncated"] is False
    for name in ("prompt", "predicted"):
        assert read[f"timings/{name}_n"] >= 0
        assert read[f"timings/{name}_ms"] >= 0.0
        assert read[f"timings/{name}_per_second"] >= 0.0
    assert read["tokens_cached"] >= read["timings/predicted_n"]


def test_n_indent_ends_the_answer_at_a_line_indented_by_less(ask) -> None:
    free = ask("llama_vim_fim", n_indent=0, t_max_predict_ms=0, n_predict=40).json["content"]
    bound = ask("llama_vim_fim", n_indent=4, t_max_predict_ms=0, n_predict=40).json["content"]
    assert free.startswith(bound)
    assert all(line.startswith("    ") or not line.strip() for line in bound.split("\n")[1:])


def test_llama_vim_with_n_cmpl_reads_a_list(ask, golden) -> None:
    read = ask("llama_vim_fim_several").json
    assert [set(each) for each in read] == [
        set(golden("llama_vim_fim_several")["body"]["response_fields"])
    ] * 3


def test_a_warm_up_is_an_empty_object_and_what_it_sent_is_read_ahead_of_the_next_keystroke(ask) -> None:
    """And the document that was asked for before stays known."""
    extra = [
        {"text": "".join(f"total_{n} = {n} * 7\n" for n in range(20)), "time": [1], "filename": "sums.py"}
    ]
    whole = {"response_fields": None, "n_predict": 1, "samplers": ["top_k"]}
    before = ask("llama_vim_fim", **whole).json["timings"]
    assert ask("llama_vim_warm", input_extra=extra).json == {}
    warm = ask("llama_vim_fim", input_extra=extra, **whole).json["timings"]
    assert warm["cache_n"] > 100 > warm["prompt_n"]
    again = ask("llama_vim_fim", **whole, n_indent=0).json["timings"]
    assert again["cache_n"] + again["prompt_n"] == before["cache_n"] + before["prompt_n"]
    assert again["prompt_n"] <= 1


def test_an_instruction_of_llama_vim_is_read_while_it_is_typed_and_answered_by_deltas(ask) -> None:
    assert ask("llama_vim_instruct_warm").json["usage"]["completion_tokens"] == 0
    events = list(ask("llama_vim_instruct", max_tokens=8, stream_options={"include_usage": True}).sse())
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in events[:-1]).strip()
    assert events[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 30


# llama.vscode


def test_llama_vscode_reads_three_different_completions_the_likeliest_first(ask) -> None:
    read = ask("llama_vscode_fim").json
    assert len(read) == 3
    (alone,) = [ask("llama_vscode_fim", n_cmpl=1).json]
    assert read[0]["content"] == alone["content"]
    for each in read:
        assert isinstance(each["content"], str)
        assert each["truncated"] is False
        assert each["tokens_cached"] > 0
        timings = each["timings"]
        for name in ("prompt_n", "prompt_ms", "prompt_per_second", "predicted_n", "predicted_ms"):
            assert timings[name] >= 0
        assert timings["predicted_per_second"] >= 0


def test_llama_vscode_learns_in_words_it_looks_for_that_it_asked_for_too_many(ask) -> None:
    reply = ask("llama_vscode_fim_too_many")
    assert reply.status == 400
    assert reply.json["error"]["message"].startswith("Field 'n_cmpl': Value must be between")


def test_llama_vscode_reads_openai_s_completion(ask) -> None:
    read = ask("llama_vscode_openai").json
    assert read["choices"][0]["text"].strip()
    assert "<|fim" not in read["choices"][0]["text"]
    assert read["choices"][0]["finish_reason"] in ("stop", "length")
    assert isinstance(read["model"], str) and type(read["created"]) is int
    usage = read["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 16


def test_llama_vscode_s_other_questions(server, ask, golden) -> None:
    assert ask("llama_vscode_chat").json["choices"][0]["message"]["content"]
    assert ask("llama_vscode_edit", max_tokens=8).json["choices"][0]["message"]["content"]
    assert ask("llama_vscode_warm").json["content"] == ""
    with httpx.Client(base_url=server.url, timeout=60) as client:
        assert client.get("/health").json() == {"status": "ok"}
        assert client.get("/v1/models").json()["data"][0]["id"]
        assert client.get("/props").json()["default_generation_settings"]["n_ctx"] > 1000
        tokens = ask("llama_vscode_tokenize").json["tokens"]
        content = golden("llama_vscode_tokenize")["body"]["content"]
        assert client.post("/detokenize", json={"tokens": tokens}).json() == {"content": content}
    assert "<|im_start|>user\nhi <|im_end|>" in ask("llama_vscode_template").json["prompt"]
    vector = ask("llama_vscode_embeddings").json["data"][0]["embedding"]
    assert len(vector) > 100 and all(isinstance(each, float) for each in vector)


# Continue


def test_continue_s_llama_cpp_provider_reads_content_of_each_event(ask) -> None:
    """It may have sent `Bearer undefined`. There is no [DONE]: the last event says that it stops."""
    reply = ask("continue_llama_cpp")
    events = list(reply.sse())
    assert "".join(event["content"] for event in events).strip()
    assert [event["stop"] for event in events] == [False] * (len(events) - 1) + [True]
    assert b"[DONE]" not in reply.body


def test_continue_s_openai_providers_read_text_until_done(server, ask) -> None:
    reply = ask("continue_openai")
    assert "".join(event["choices"][0]["text"] for event in reply.sse()).strip()
    assert reply.body.endswith(b"data: [DONE]\n\n")
    card = httpx.get(f"{server.url}/v1/models").json()["data"][0]
    assert card["id"] and card["max_model_len"] > 1000


def test_continue_s_mistral_provider_never_sees_an_event_without_choices(ask) -> None:
    events = list(ask("continue_mistral").sse())
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in events).strip()


def test_continue_s_ollama_provider_finds_that_the_model_infills(ask) -> None:
    card = ask("continue_ollama_show").json
    assert ".Suffix" in card["template"]
    assert "insert" in card["capabilities"]
    assert re.match(r"num_ctx\s+\d+", card["parameters"])
    for name in ("continue_ollama", "continue_ollama_raw"):
        lines = ask(name).lines()
        assert not any("error" in line for line in lines)
        assert "".join(line["response"] for line in lines).strip()
        assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]


# Tabby


def test_tabby_s_agent_connects_completes_and_tells_what_became_of_it(server, ask) -> None:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        for health in (client.get("/v1/health"), client.post("/v1/health", json={})):
            assert health.status_code == 200
            assert health.json()["model"] and health.json()["device"] == "cpu"
            assert re.fullmatch(r"v\d+\.\d+\.\d+", health.json()["version"]["git_describe"])
            assert health.json()["status"] == "ok", "llama-server's clients ask by the same path"
        setting = client.get("/v1beta/server_setting").json()
        assert setting == {"disable_client_side_telemetry": True}
        other = {"type": "edit", "completion_id": "x", "choice_index": 0}
        assert client.post("/v1/events", json=other).status_code == 400
    read = ask("tabby_completion").json
    assert set(read) == {"id", "choices", "mode"}
    assert read["choices"][0]["index"] == 0 and read["choices"][0]["text"].strip()
    for event in ("view", "select", "dismiss"):
        assert ask(f"tabby_event_{event}", completion_id=read["id"]).status == 200


def test_tabby_s_manual_trigger_varies_and_does_not_where_the_seed_is_the_same(ask) -> None:
    """The agent asks up to six times for three items, all with the same body. Its temperature of 0.8 may give the same
    line six times; a much higher one does not.
    """
    texts = [ask("tabby_manual", seed=seed).json["choices"][0]["text"] for seed in (1, 2, 3, 1)]
    assert texts[0] == texts[3]
    assert len(set(texts)) > 1
    unseeded = [ask("tabby_manual", seed=None, temperature=4.0).json["choices"][0]["text"] for _ in range(6)]
    assert len(set(unseeded)) > 1


def test_tabby_s_server_reads_nothing_but_json(ask) -> None:
    events = list(ask("tabby_server_to_backend").sse())
    assert all(isinstance(event["content"], str) and isinstance(event["stop"], bool) for event in events)


# Zed, Copilot, Cody, minuet, twinny, Refact


def test_zed_finds_every_field_it_cannot_do_without(ask) -> None:
    read = ask("zed_openai").json
    assert isinstance(read["id"], str) and isinstance(read["object"], str)
    assert type(read["created"]) is int and isinstance(read["model"], str)
    assert all(isinstance(choice["text"], str) for choice in read["choices"])
    assert all(
        type(read["usage"][name]) is int for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    )
    read = ask("zed_ollama").json
    assert read["response"].strip() and read["done"] is True
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", read["created_at"])


def test_copilot_reads_choices_with_logprobs_and_its_own_request_id(server, ask, golden) -> None:
    reply = ask("copilot")
    assert reply.headers["x-request-id"] == golden("copilot")["headers"]["X-Request-Id"]
    assert reply.headers["openai-processing-ms"].isdigit()
    events = list(reply.sse())
    assert "".join(event["choices"][0]["text"] for event in events).strip()
    for event in events:
        (choice,) = event["choices"]
        assert choice["index"] == 0
        assert set(choice["logprobs"]) == {"tokens", "token_logprobs", "top_logprobs", "text_offset"}
        lengths = {len(choice["logprobs"][name]) for name in choice["logprobs"]}
        assert len(lengths) == 1, "four parallel lists"
    ends = [event["choices"][0]["finish_reason"] for event in events]
    assert ends == [None] * (len(events) - 1) + ends[-1:] and ends[-1] in ("stop", "length")
    token = httpx.get(f"{server.url}/copilot_internal/v2/token", headers={"Authorization": "token gho_1"})
    assert isinstance(token.json()["token"], str) and token.json()["expires_at"] > 0


def test_cody_stores_what_headers_say_of_the_cost(ask) -> None:
    """Of a stream the time to its first text; of a whole answer everything."""
    assert float(ask("cody").headers["fireworks-server-time-to-first-token"]) >= 0.0
    told = ask("cody", stream=False).headers
    assert int(told["fireworks-cached-prompt-tokens"]) > 0, "the stream had the same prompt"
    assert int(told["fireworks-speculation-matched-tokens"]) >= 0
    assert float(told["fireworks-prefill-queue-duration"]) >= 0.0


@pytest.mark.parametrize("name", ["cody", "minuet", "twinny_openai"])
def test_clients_of_openai_s_stream_read_text(ask, name: str) -> None:
    assert "".join(event["choices"][0]["text"] for event in ask(name).sse()).strip()


def test_twinny_reads_ollama_s_lines_and_llama_cpp_s_events(ask) -> None:
    """It does not say that its prompt is raw: what holds infill markers is not wrapped in a chat."""
    lines = ask("twinny_ollama").lines()
    assert "".join(line["response"] for line in lines).strip()
    assert "context" not in lines[-1]
    assert "".join(event["content"] for event in ask("twinny_llama_cpp").sse()).strip()


def test_one_cursor_is_one_answer_whatever_the_dialect(ask) -> None:
    """All of them mean the same document, so greedily they say the same."""
    greedy: dict[str, Any] = {"temperature": 0}
    first_lines = {
        ask("llama_vscode_openai", **greedy).json["choices"][0]["text"].split("\n")[0],
        ask("zed_openai", **greedy).json["choices"][0]["text"].split("\n")[0],
        ask("refact_backend", **greedy).json["choices"][0]["text"].split("\n")[0],
        ask("llama_vscode_fim", **greedy, n_cmpl=1).json["content"].split("\n")[0],
        ask("zed_ollama", options={"num_predict": 16, "temperature": 0}).json["response"].split("\n")[0],
    }
    assert len(first_lines) == 1


# Real clients


def test_the_openai_package_completes_streams_and_chats(server) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        whole = client.completions.create(model="any", prompt="def f(", suffix=")\n", max_tokens=6)
        stream = client.completions.create(
            model="any",
            prompt="def f(",
            suffix=")\n",
            max_tokens=6,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = list(stream)
        assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == whole.choices[0].text
        assert (
            chunks[-1].usage is not None
            and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
        )
        messages: list[Any] = [{"role": "user", "content": "What is 1 + 1?"}]
        chat = client.chat.completions.create(
            model="any", messages=messages, max_tokens=6, logprobs=True, top_logprobs=2
        )
        assert chat.choices[0].message.content
        assert chat.choices[0].logprobs is not None
        assert len(chat.choices[0].logprobs.content or []) == 6
        pieces = client.chat.completions.create(model="any", messages=messages, max_tokens=6, stream=True)
        assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == (
            chat.choices[0].message.content
        )
        texts = ["def area(radius):", "def area(r):", "SELECT name FROM users;"]
        vectors = [each.embedding for each in client.embeddings.create(model="any", input=texts).data]
        near, far = (sum(a * b for a, b in zip(vectors[0], other, strict=True)) for other in vectors[1:])
        assert far < near < 1.0
        (card,) = client.models.list().data
        assert client.models.retrieve("whatever/name").id == card.id
        with pytest.raises(openai.BadRequestError, match="tools"):
            tool: Any = {"type": "function", "function": {"name": "f"}}
            client.chat.completions.create(model="any", messages=messages, tools=[tool])


def test_the_ollama_package_generates_chats_and_looks_around(server) -> None:
    with ollama.Client(host=server.url) as client:
        options = {"num_predict": 6}
        whole = client.generate(model="any", prompt="def f(", suffix=")\n", options=options)
        pieces = client.generate(model="any", prompt="def f(", suffix=")\n", options=options, stream=True)
        assert "".join(piece.response for piece in pieces) == whole.response
        assert whole.eval_count is not None and whole.eval_count <= 7
        chat = client.chat(model="any", messages=[{"role": "user", "content": "hi"}], options=options)
        assert chat.message.content
        assert client.generate(model="any", prompt="").done_reason == "load"
        (vector,) = client.embed(model="any", input="def area(radius):").embeddings
        assert abs(sum(x * x for x in vector) - 1.0) < 1e-5
        (model,) = client.list().models
        assert model.size is not None and model.size > 10_000_000
        assert client.ps().models[0].model == model.model
        assert "insert" in (client.show("any").capabilities or [])
        with pytest.raises(ollama.ResponseError, match="format"):
            client.generate(model="any", prompt="x", format="json")
