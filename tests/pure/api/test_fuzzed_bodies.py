"""Nothing that a body can hold makes the server break or hang, in any dialect."""

import copy
import gc
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.anyio

GOLDEN = Path(__file__).parents[2] / "server" / "api" / "golden"

DIALECTS = {
    "openai": ("/v1/completions", "/v1/chat/completions", "/v1/embeddings"),
    "llama": ("/infill", "/completion", "/tokenize", "/detokenize", "/apply-template"),
    "tabby": ("/v1/completions#tabby", "/v1/events"),
    "ollama": ("/api/generate", "/api/chat", "/api/show", "/api/embed", "/api/embeddings"),
    "mistral": ("/v1/fim/completions",),
    "copilot": ("/v1/engines/copilot-codex/completions",),
}
ROUTES = sorted(path for paths in DIALECTS.values() for path in paths)

# Bodies of routes that no client of the tables asks.
MORE: dict[str, list[dict[str, Any]]] = {
    "/tokenize": [
        {"content": "a <|im_end|> b", "add_special": True, "parse_special": True, "with_pieces": True}
    ],
    "/v1/embeddings": [{"model": "any", "input": ["a", "b"], "encoding_format": "base64", "user": "ada"}],
    "/api/embed": [{"model": "any", "input": "a", "truncate": True}],
    "/api/embeddings": [{"model": "any", "prompt": "a", "keep_alive": "5m"}],
    "/detokenize": [{"tokens": [3, 4, 5]}],
    "/apply-template": [{"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}],
}

HOSTILE: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e308, 1e-320,
    "", " ", "\x00", "\U0001f9d1\u200d\U0001f33e", "\uffff\ufdd0", "x" * 5000, "<|im_start|>", "<|fim_prefix|>",
    "{{7*7}}", "{% raw %}", "../../../etc/passwd", "%s%n", "NaN", "1", "json",
    [], [[]], [None], [""], ["a", 1], [1, 2, 3], [[1], [2]], [{}], {}, {"": ""}, {"a": {"b": {"c": []}}}, {"text": 1},
    [["a", False], [1, 2]], [{"role": "user", "content": "x"}], [{"role": "system"}], [{"text": "x", "filename": None}],
    {"type": "json_object"}, {"prefix": "x"},
]  # fmt: skip


def bodies_of(path: str) -> list[dict[str, Any]]:
    path, _, wanted = path.partition("#")
    found = []
    for file in sorted(GOLDEN.glob("*.json")):
        request = json.loads(file.read_text(encoding="utf-8"))
        if request["path"].partition("?")[0] == path and wanted in file.stem:
            found.append(request["body"])
    return found + MORE.get(path, [])


def every_place(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key or index) of everything inside."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(inside):
        yield value, key
        yield from every_place(inner)


def mutated(body: dict[str, Any], names: list[str], chance: random.Random) -> bytes:
    body = copy.deepcopy(body)
    for name in ("max_tokens", "n_predict", "num_predict"):
        if chance.random() < 0.2 and name in body:
            del body[name]
    for _ in range(chance.choice((1, 1, 2, 4))):
        places = list(every_place(body)) or [(body, "x")]
        container, key = chance.choice(places)
        match chance.randrange(4):
            case 0 | 1:
                container[key] = copy.deepcopy(chance.choice(HOSTILE))
            case 2:
                if isinstance(container, dict):
                    container.pop(key, None)
            case 3:
                body[chance.choice(names)] = copy.deepcopy(chance.choice(HOSTILE))
    text = json.dumps(body).encode()
    match chance.randrange(12):
        case 0:
            text = text[: chance.randrange(len(text) + 1)]
        case 1:
            place = chance.randrange(len(text))
            text = text[:place] + bytes([chance.randrange(256)]) + text[place + 1 :]
        case 2:
            text = text.replace(b"0", chance.choice((b"NaN", b"-Infinity", b"1e999", b"00")), 1)
        case 3:
            text = b"[" * chance.choice((10, 1000)) + text
    return text


async def fuzz(stage: Any, dialect: str, num_bodies: int, seed: int) -> None:
    chance = random.Random(f"{dialect} {seed}")
    names = sorted({name for paths in DIALECTS.values() for p in paths for b in bodies_of(p) for name in b})
    statuses: dict[int, int] = {}
    stage.pipeline.most_tokens = 2
    for _ in range(num_bodies):
        path = chance.choice(DIALECTS[dialect])
        content = mutated(chance.choice(bodies_of(path)), names, chance)
        reply = await stage.client.post(path.partition("#")[0], content=content)
        assert reply.status_code in (200, 400), (path, content, reply.text)
        statuses[reply.status_code] = statuses.get(reply.status_code, 0) + 1
    assert statuses[200] > num_bodies / 20 and statuses[400] > num_bodies / 20, statuses


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_three_hundred_bodies_gone_wrong_are_answered(on_stage, dialect: str) -> None:
    async with on_stage() as stage:
        await fuzz(stage, dialect, 300, seed=1)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_ten_thousand_bodies_gone_wrong_are_answered_and_leave_nothing_behind(
    on_stage, dialect: str
) -> None:
    async with on_stage() as stage:
        await fuzz(stage, dialect, 1000, seed=2)
        before = num_objects(stage)
        await fuzz(stage, dialect, 9000, seed=3)
        assert num_objects(stage) - before < 900, "a tenth of an object for each body"


def num_objects(stage: Any) -> int:
    """In the process, but for what the fake pipeline remembers."""
    for remembered in (stage.pipeline.requests, stage.pipeline.cancelled, stage.pipeline.receipts):
        remembered.clear()
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.parametrize("path", ROUTES)
async def test_what_is_no_proper_json_is_a_400_in_every_dialect(on_stage, path: str) -> None:
    some = json.dumps(bodies_of(path)[0]).encode()
    async with on_stage() as stage:
        for content in (
            b"",
            b"null",
            b"[]",
            b"\xff\xfe{}",
            b"[" * 1_000_000,
            b'{"a":' * 1_000_000,
            some[:-1] + b', "x": ' + b"[" * 1_000_000,
            some[:-1] + b', "x": NaN}',
            some[:-1] + b', "x": -Infinity}',
            some[:-1] + b', "x": [1e999]}',
            some[:-1] + b', "x": {"y": -1e999}}',
            some[:-1] + b', "x": 1, "x": 2}',
            some[:-1] + b', "x": {"y": 1, "y": 2}}',
            some[:-1] + b', "x": "\xc3\x28"}',
            some[:-1] + b', "x": "\\ud800"}',
            some[:-1],
            some + b"}",
        ):
            reply = await stage.client.post(path.partition("#")[0], content=content)
            assert reply.status_code == 400, (path, content[:80], reply.text[:200])


async def test_errors_speak_each_dialect_s_own_words(on_stage) -> None:
    async with on_stage() as stage:
        llama = await stage.client.post("/infill", json={"prompt": "x"})
        ollama = await stage.client.post("/api/generate", json={"prompt": 3})
        openai = await stage.client.post("/v1/chat/completions", json={})
    assert llama.json() == {
        "error": {"code": 400, "message": '"input_prefix" is required', "type": "invalid_request_error"}
    }
    assert list(ollama.json()) == ["error"] and "prompt" in ollama.json()["error"]
    assert openai.json()["error"]["param"] == "messages"
