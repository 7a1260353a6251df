"""A server without keys answers programs of this machine, and no web page that a browser of this machine shows."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from halfline.api.keys.key import new_key
from halfline.api.keys.key_file import FILE_NAME, add_key
from halfline.api.keys.key_ring import KeyRing
from halfline.api.local_names import LocalNames
from halfline.api.options import ApiOptions
from halfline.errors import NotPermitted

LOCAL = LocalNames(["127.0.0.5", "IDE.example"], ["https://page.example"])

OURS = (
    "localhost",
    "LOCALHOST:8117",
    "localhost.",
    "127.0.0.1:8117",
    "127.0.0.1",
    "127.1.2.3:1",
    "[::1]:8117",
    "[::1]",
    "127.0.0.5:80",
    "ide.example:443",
)

NOT_OURS = (
    "evil.example",
    "evil.example:8117",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "localhost:8117@evil.example",
    "evil.example#localhost",
    "192.0.2.7",
    "0.0.0.0:8117",
    "[2001:db8::1]",
    "::1",
    "localhost:port",
    "",
)


def refusal(*headers: tuple[str, str]) -> str | None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    try:
        LOCAL.check(Headers(raw=raw))
    except NotPermitted as error:
        return str(error)
    return None


@pytest.mark.parametrize("host", OURS)
def test_it_answers_to_its_own_names_at_any_port(host: str) -> None:
    assert refusal(("host", host)) is None
    assert refusal(("host", "localhost"), ("origin", f"http://{host}")) is None


@pytest.mark.parametrize("host", NOT_OURS)
def test_it_answers_to_no_other_name_and_to_no_page_from_there(host: str) -> None:
    assert "api.allowed_hosts" in (refusal(("host", host)) or "")
    assert refusal(("host", "localhost"), ("host", host)), "each of two counts"
    assert "api.cors_origins" in (refusal(("host", "localhost"), ("origin", f"https://{host}")) or "")


def test_pages_that_are_named_may_ask_and_what_has_no_origin_may_not() -> None:
    assert refusal(("host", "localhost"), ("origin", "https://page.example")) is None
    assert refusal(("host", "localhost"), ("origin", "https://page.example.evil"))
    assert refusal(("host", "localhost"), ("origin", "null")), "a file, or a frame without one"
    assert LocalNames([], ["*"]).check(Headers({"origin": "null"})) is None


def test_who_says_neither_is_no_browser() -> None:
    assert refusal() is None


@given(st.text(st.characters(max_codepoint=255)))
def test_any_text_is_a_name_or_is_not(host: str) -> None:
    refusal(("host", host), ("origin", host))


PATHS = ("/health", "/v1/health", "/metrics", "/v1/models", "/openapi.json", "/api/tags", "/nowhere")


async def statuses(client: httpx.AsyncClient, **headers: str) -> set[int]:
    return {(await client.get(path, headers=headers)).status_code for path in PATHS}


@pytest.mark.anyio
async def test_every_route_is_refused_in_its_own_words_and_nothing_runs(on_stage: Any) -> None:
    async with on_stage(local=LOCAL) as stage:
        client = stage.client
        assert await statuses(client, Host="evil.example") == {403}
        assert await statuses(client, Host="localhost", Origin="https://evil.example") == {403}
        assert await statuses(client, Host="127.0.0.1:8117", Origin="http://localhost:3000") == {200, 404}
        simple = {"Host": "localhost", "Origin": "https://evil.example", "Content-Type": "text/plain"}
        reply = await client.post("/v1/completions", content=b'{"prompt": "x"}', headers=simple)
        assert (reply.status_code, reply.json()["error"]["type"]) == (403, "permission_error")
        ollama = await client.get("/api/tags", headers={"Host": "evil.example"})
        assert "evil.example" in ollama.json()["error"]
        assert stage.pipeline.requests == []


@pytest.mark.anyio
async def test_a_page_that_is_named_is_told_that_it_may_ask(on_stage: Any) -> None:
    options = ApiOptions(cors_origins=("https://page.example",))
    async with on_stage(options, local=LOCAL) as stage:
        headers = {"Host": "localhost", "Origin": "https://page.example"}
        reply = await stage.client.get("/v1/models", headers=headers)
        assert reply.status_code == 200
        assert reply.headers["access-control-allow-origin"] == "https://page.example"


@pytest.mark.anyio
async def test_with_keys_names_do_not_matter(on_stage: Any, tmp_path: Path) -> None:
    key, sent = new_key(1e9, scope="admin")
    add_key(tmp_path / FILE_NAME, key)
    async with on_stage(keys=KeyRing(tmp_path / FILE_NAME), local=LOCAL) as stage:
        headers = {"Host": "any.example", "Origin": "https://evil.example"}
        assert await statuses(stage.client, **headers, Authorization=f"Bearer {sent}") == {200, 404}
        assert (await stage.client.get("/v1/models", headers=headers)).status_code == 401


@pytest.mark.parametrize("host", ["proxy.example:443", "https://x", "", "*", "a b"])
def test_a_setting_that_names_no_host_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="no name of a host"):
        ApiOptions(allowed_hosts=(host,))
