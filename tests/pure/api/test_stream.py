"""POST /v1/completions, streamed: the events, and how a stream ends early."""

import asyncio
import json

import pytest

from halfline.api import sse

pytestmark = pytest.mark.anyio


def chunks_of(text: str) -> list[dict]:
    """The events' JSON; checks their framing and the end mark on the way."""
    assert text.endswith("data: [DONE]\n\n")
    events = text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert all(event.startswith("data: ") and "\n" not in event for event in events[:-1])
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


def text_by_index(chunks: list[dict]) -> dict[int, str]:
    texts: dict[int, str] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
    return texts


async def test_a_stream_is_openai_s_chunks_then_done(on_stage) -> None:
    async with on_stage() as stage:
        reply = await stage.complete(prompt="four", max_tokens=2, stream=True)
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["x-cache"] == "miss"
    assert "content-length" not in reply.headers
    first, last = chunks_of(reply.text)
    assert first.pop("id") == last.pop("id")
    assert first.pop("created") == last.pop("created")
    envelope = {"object": "text_completion", "model": "letters", "system_fingerprint": "halfline-letters"}
    choice = {"index": 0, "text": "a", "logprobs": None, "finish_reason": None}
    assert first == {**envelope, "choices": [choice]}
    choice = {"index": 0, "text": "b", "logprobs": None, "finish_reason": "length"}
    assert last == {**envelope, "choices": [choice]}


STREAMED = {
    "/v1/completions": {"prompt": "x", "max_tokens": 3},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}], "max_tokens": 3},
    "/v1/fim/completions": {"prompt": "x", "max_tokens": 3},
    "/v1/engines/any/completions": {"prompt": "x", "suffix": "", "max_tokens": 3},
    "/infill": {"input_prefix": "x", "input_suffix": "", "n_predict": 3},
    "/completion": {"prompt": "x", "n_predict": 3},
}


@pytest.mark.parametrize("path", STREAMED)
async def test_no_stream_holds_a_comment_which_some_editors_take_for_its_end(on_stage, path: str) -> None:
    """Least of all `: ping`; not while it waits for a token either."""
    async with on_stage() as stage:
        stage.pipeline.gate = asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, stage.pipeline.gate.set)
        reply = await stage.client.post(path, json={**STREAMED[path], "stream": True})
    assert reply.headers["content-type"].startswith("text/event-stream")
    lines = reply.text.split("\n")
    assert len(lines) > 4 and all(line == "" or line.startswith("data: ") for line in lines)


async def test_a_stream_and_a_whole_reply_hold_the_same_text_and_logprobs(on_stage) -> None:
    body = {"prompt": ["aa", "b"], "n": 2, "max_tokens": 5, "logprobs": 2}
    async with on_stage() as stage:
        whole = (await stage.complete(**body)).json()
        chunks = chunks_of((await stage.complete(**body, stream=True)).text)
    assert text_by_index(chunks) == {choice["index"]: choice["text"] for choice in whole["choices"]}
    for choice in whole["choices"]:
        for name, values in choice["logprobs"].items():
            streamed = [
                value
                for chunk in chunks
                for part in chunk["choices"]
                if part["index"] == choice["index"]
                for value in part["logprobs"][name]
            ]
            assert streamed == values


async def test_usage_comes_last_and_only_when_asked_for(on_stage) -> None:
    async with on_stage() as stage:
        without = chunks_of((await stage.complete(prompt=["aa", "b"], max_tokens=3, stream=True)).text)
        options = {"include_usage": True}
        asked = chunks_of(
            (await stage.complete(prompt=["aa", "b"], max_tokens=3, stream=True, stream_options=options)).text
        )
    assert all("usage" not in chunk and chunk["choices"] for chunk in without)
    assert all("usage" not in chunk for chunk in asked[:-1])
    assert asked[-1]["choices"] == []
    assert asked[-1]["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 6,
        "total_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 1},
    }


async def test_an_engine_that_dies_under_a_stream_is_told_in_the_stream(on_stage) -> None:
    async with on_stage() as stage:
        stage.pipeline.fails = True
        *_, last, error = chunks_of((await stage.complete(prompt="x", stream=True)).text)
    assert last["choices"][0]["finish_reason"] == "failed"
    assert error["error"]["code"] == "engine_failed"


async def test_a_server_that_stops_gives_every_stream_its_last_event(on_stage) -> None:
    async with on_stage() as stage:
        stage.pipeline.gate = asyncio.Event()
        running = [
            asyncio.ensure_future(stage.complete(prompt="x", n=n, max_tokens=9, stream=True)) for n in (1, 3)
        ]
        while len(stage.pipeline.requests) < 2:
            await asyncio.sleep(0)
        stage.live.end_all()
        replies = await asyncio.gather(*running)
        assert len(stage.pipeline.cancelled) == 2
        for reply, num_choices in zip(replies, (1, 3), strict=True):
            endings = chunks_of(reply.text)[-num_choices:]
            assert [chunk["choices"][0]["finish_reason"] for chunk in endings] == ["cancelled"] * num_choices
            assert [chunk["choices"][0]["index"] for chunk in endings] == list(range(num_choices))


async def test_a_server_that_stops_answers_whole_requests_with_503(on_stage) -> None:
    async with on_stage() as stage:
        stage.pipeline.gate = asyncio.Event()
        running = asyncio.ensure_future(stage.complete(prompt="x"))
        while not stage.pipeline.requests:
            await asyncio.sleep(0)
        stage.live.end_all()
        reply = await running
        assert len(stage.pipeline.cancelled) == 1
    assert reply.status_code == 503
    assert reply.headers["retry-after"]


@pytest.mark.parametrize("path", ["/v1/completions", "/tokenize", "/v1/embeddings", "/v1/events"])
async def test_a_server_that_stops_waits_for_no_body(on_stage, path: str) -> None:
    begun = asyncio.Event()

    async def half():
        yield b"{"
        begun.set()
        await asyncio.Event().wait()

    async with on_stage() as stage:
        before, behind = (asyncio.ensure_future(stage.client.post(path, content=half())) for _ in range(2))
        await begun.wait()
        stage.live.end_all()
        for asked in (before, behind):
            reply = await asked
            assert reply.status_code == 503 and reply.headers["retry-after"]
            assert "shutting down" in reply.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("prompt", ["x", ["x", "y", "z"]])
async def test_work_ends_when_the_client_leaves_streamed_or_not(on_stage, stream, prompt) -> None:
    async with on_stage() as stage:
        stage.pipeline.gate = asyncio.Event()
        body = json.dumps({"prompt": prompt, "stream": stream}).encode()
        left = asyncio.Event()
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> dict:
            for message in messages:
                return message
            await left.wait()
            return {"type": "http.disconnect"}

        sent = []

        async def send(message: dict) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/completions",
            "headers": [],
            "query_string": b"",
            "client": None,
            "server": ("halfline", 80),
            "scheme": "http",
            "root_path": "",
            "http_version": "1.1",
        }
        answering = asyncio.ensure_future(stage.app(scope, receive, send))
        num_prompts = 1 if prompt == "x" else 3
        while len(stage.pipeline.requests) < num_prompts or (stream and len(sent) < 2):
            await asyncio.sleep(0)
        left.set()
        await asyncio.wait_for(answering, 5)
        assert len(stage.pipeline.cancelled) == num_prompts
        metrics = (await stage.client.get("/metrics")).text
        assert 'halfline_completions_total{finish_reason="cancelled"}' in metrics
        stage.pipeline.gate = None
        assert (await stage.complete(prompt="still there?")).status_code == 200


def test_an_event_is_one_ascii_line_whatever_is_in_it() -> None:
    assert sse.event({"text": "a\r\n\u2028é"}) == b'data: {"text":"a\\r\\n\\u2028\\u00e9"}\n\n'


async def test_an_answer_that_is_whole_at_once_is_sent_as_one_piece(on_stage) -> None:
    async with on_stage() as stage:
        for path, body in STREAMED.items():
            pieces = await _pieces(stage.app, path, {**body, "stream": True})
            assert len(pieces) > 3, "an answer of several steps comes in several"
            whole = await _pieces(stage.app, path, {**_one_token(body), "stream": True})
            assert len(whole) == 1
            assert b'"a"' in whole[0], "the first token, which is the last one"


def _one_token(body: dict) -> dict:
    return {key: 1 if key in ("max_tokens", "n_predict") else value for key, value in body.items()}


async def _pieces(app, path: str, body: dict) -> list[bytes]:
    """What is sent, message by message."""
    sent: list[bytes] = []
    given = iter([{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}])

    async def receive() -> dict:
        for message in given:
            return message
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict) -> None:
        sent.append(message.get("body", b""))

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [],
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
    }
    await app(scope, receive, send)
    return [each for each in sent if each]
