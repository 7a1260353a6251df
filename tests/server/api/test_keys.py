"""Keys of a real server: two that share nothing but the machine, and two that were told to share."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from halfline.api.keys.key import new_key
from halfline.api.keys.key_file import FILE_NAME, add_key

# Longer than a block of KV, and found nowhere else.
SECRET = "zanzibar_marmalade_7391"
PROMPT = "".join(f"def {SECRET}_{number}(x):\n    return x + {number}\n\n" for number in range(12)) + "def f("


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def created(data_dir: Path) -> Callable[..., str]:
    """`created("--tenant", "a")`: a key made by the command, as its holder sends it."""

    def create(*options: str) -> str:
        command = [sys.executable, "-m", "halfline", "key", "create", "--data-dir", str(data_dir), *options]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    return create


@pytest.fixture(scope="module")
def keys(created: Callable[..., str], data_dir: Path) -> dict[str, str]:
    """Ann and Ada share, Bob does not, nor do those who ask on one route only."""
    strangers = {route: new_key(time.time()) for route in ROUTES}
    for stranger, _ in strangers.values():
        add_key(data_dir / FILE_NAME, stranger)
    return {
        **{route: sent for route, (_, sent) in strangers.items()},
        "ann": created("--tenant", "team"),
        "ada": created("--tenant", "team"),
        "bob": created(),
        "admin": created("--scope", "admin"),
    }


@pytest.fixture(scope="module")
def closed(start_server: Any, data_dir: Path, keys: dict[str, str]) -> Iterator[Any]:
    """A server that listens everywhere, since there are keys, and logs all it ever logs."""
    yield start_server(
        "--host", "0.0.0.0", HALFLINE_DATA_DIR=str(data_dir), HALFLINE_TELEMETRY__LOG_LEVEL="debug"
    ).wait_until_ready()


def client(server: Any, key: str) -> httpx.Client:
    url = server.url.replace("0.0.0.0", "127.0.0.1")
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=120)


def receipt(server: Any, key: str, **changes: object) -> dict[str, Any]:
    with client(server, key) as asking:
        body = {"prompt": PROMPT, "max_tokens": 4, **changes}
        reply = asking.post("/v1/completions", json=body).raise_for_status().json()
        return asking.get(f"/v1/completions/{reply['id']}/why").raise_for_status().json()


def test_of_two_keys_with_equal_prompts_the_second_computes_every_token_unless_they_share_a_tenant(
    closed: Any, keys: dict[str, str]
) -> None:
    first = receipt(closed, keys["ann"])
    stranger = receipt(closed, keys["bob"])
    mate = receipt(closed, keys["ada"], postprocess=False)
    assert first["num_reused_tokens"] == stranger["num_reused_tokens"] == 0
    assert stranger["num_computed_tokens"] == first["num_computed_tokens"] >= first["num_prompt_tokens"]
    assert stranger["tier"] == "miss" and stranger["num_known_tokens"] == 0
    assert mate["num_reused_tokens"] > 0


DOCUMENT = {"prompt": "", "suffix": "\n\nprint(f(1))\n", "max_tokens": 2}
DIALECTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "a prompt": ("/v1/completions", {"max_tokens": 2}, "prompt"),
    "a document": ("/v1/completions", DOCUMENT, "prompt"),
    "Mistral": ("/v1/fim/completions", DOCUMENT, "prompt"),
    "Copilot": ("/v1/engines/copilot-codex/completions", {**DOCUMENT, "stream": False}, "prompt"),
    "infill": ("/infill", {"input_suffix": "\n", "prompt": "", "n_predict": 2}, "input_prefix"),
    "llama-server": ("/completion", {"n_predict": 2}, "prompt"),
    "Ollama": ("/api/generate", {"model": "x", "stream": False, "options": {"num_predict": 2}}, "prompt"),
}


ROUTES = (*DIALECTS, "chat", "Ollama's chat", "Tabby", "a task")


def _of_route(route: str, text: str) -> tuple[str, dict[str, Any]]:
    """The path, and a body that has the text in it."""
    messages = [{"role": "user", "content": text}]
    match route:
        case "chat":
            return "/v1/chat/completions", {"messages": messages, "max_tokens": 2}
        case "Ollama's chat":
            options = {"num_predict": 2}
            return "/api/chat", {"model": "x", "messages": messages, "stream": False, "options": options}
        case "Tabby":
            return "/v1/completions", {"language": "python", "segments": {"prefix": text, "suffix": "\n"}}
        case "a task":
            return "/v1/tasks/explain", {"placeholders": {"code": text}, "max_tokens": 2}
        case _:
            path, body, field = DIALECTS[route]
            return path, {**body, field: text}


@pytest.mark.parametrize("route", ROUTES)
def test_on_every_route_what_one_key_asked_makes_nothing_faster_for_another(
    closed: Any, keys: dict[str, str], route: str
) -> None:
    path, body = _of_route(route, PROMPT)

    def ask(whose: str) -> tuple[str, int]:
        """The tier that answered, and how many tokens of the prompt were known, as the log says it."""
        num_told = len(_told(closed))
        with client(closed, keys[whose]) as asking:
            reply = asking.post(path, json=body).raise_for_status()
        while len(told := _told(closed)) == num_told:
            time.sleep(0.01)
        return reply.headers["X-Cache"], told[-1]

    ask("ann")
    assert ask(route) == ("miss", 0)
    tier, num_reused = ask("ada")
    assert tier != "miss" or num_reused > 100, "those who share a tenant find it"


def _told(server: Any) -> list[int]:
    """Tokens of its prompt that each finished completion reused."""
    return [int(found[1]) for line in server.log if (found := re.search(r"reused_tokens=(\d+)", line))]


def test_a_key_finds_its_own_again(closed: Any, keys: dict[str, str]) -> None:
    receipt(closed, keys["bob"])
    assert receipt(closed, keys["bob"])["tier"] == "exact"


def test_no_page_shows_what_another_key_sent(closed: Any, keys: dict[str, str]) -> None:
    mine = receipt(closed, keys["ann"])
    with client(closed, keys["bob"]) as bob, client(closed, keys["admin"]) as admin:
        assert bob.get(f"/v1/completions/{mine['request_id']}/why").status_code == 404
        pages = [bob.get(path) for path in ("/slots", "/props", "/v1/models", "/v1/events", "/health")]
        pages += [admin.get(path) for path in ("/metrics", "/slots")]
    for page in pages:
        assert page.status_code == 200
        assert SECRET not in page.text and "zanzibar" not in page.text
        assert mine["request_id"] not in page.text
        assert not any(key in page.text or key.split("_")[2] in page.text for key in keys.values())


def test_an_answer_s_address_is_worth_nothing_to_another_key(closed: Any, keys: dict[str, str]) -> None:
    with client(closed, keys["ann"]) as ann, client(closed, keys["bob"]) as bob:
        reply = ann.post("/v1/completions", json={"prompt": PROMPT, "max_tokens": 4}).raise_for_status()
        kept = ann.get(reply.headers["Content-Location"]).raise_for_status()
        for tag in (kept.headers["ETag"], "*"):
            asked = bob.get(reply.headers["Content-Location"], headers={"If-None-Match": tag})
            assert asked.status_code == 404 and kept.headers["ETag"] not in asked.text


def test_a_key_made_or_revoked_while_the_server_runs_is_known_within_a_second_or_two(
    closed: Any, created: Callable[..., str], data_dir: Path
) -> None:
    late = created("--name", "late")
    with client(closed, late) as asking:
        _until(asking, 200)
        command = [sys.executable, "-m", "halfline", "key", "revoke", late.split("_")[1]]
        subprocess.run([*command, "--data-dir", str(data_dir)], check=True, capture_output=True)
        _until(asking, 401)


def test_the_log_holds_no_key_and_no_prompt_whatever_goes_wrong(closed: Any, keys: dict[str, str]) -> None:
    with client(closed, keys["ann"]) as asking:
        asking.post("/v1/completions", json={"prompt": PROMPT, "max_tokens": 2})
        asking.post("/v1/completions", json={"prompt": PROMPT, "max_tokens": -1})
        asking.post("/v1/completions", content=f'{{"prompt": "{SECRET}'.encode())
        asking.post("/infill", json={"input_prefix": PROMPT, "input_suffix": SECRET, "n_predict": 1})
        asking.get(f"/{SECRET}?key={keys['ann']}")
        with asking.stream("POST", "/v1/completions", json={"prompt": PROMPT, "stream": True}) as reply:
            next(reply.iter_lines())
    with client(closed, keys["bob"] + "0") as refused:
        assert refused.post("/v1/completions", json={"prompt": SECRET}).status_code == 401
    with client(closed, keys["ann"]) as asking:
        asking.get("/v1/models", headers={"X-Request-Id": "the-last"})
    while not any("the-last" in line for line in closed.log):
        time.sleep(0.01)
    log = "".join(closed.log)
    assert "route=/v1/completions" in log
    assert "zanzibar" not in log
    for key in keys.values():
        assert key.split("_")[2] not in log


def test_the_command_sends_the_key_of_the_environment(closed: Any, keys: dict[str, str]) -> None:
    url = closed.url.replace("0.0.0.0", "127.0.0.1")
    command = [sys.executable, "-m", "halfline", "complete", "--stdin", "--server", url, "--max-tokens", "4"]

    def run(**environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command,
            input="def f(<CURSOR>",
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            check=False,
        )

    assert run(HALFLINE_API_KEY=keys["ann"]).returncode == 0
    refused = run()
    assert refused.returncode == 2 and "wants an API key" in refused.stderr


def _until(asking: httpx.Client, status: int) -> None:
    """The server looks at its key file once a second, when somebody asks."""
    for _ in range(600):
        if asking.get("/v1/models", timeout=120).status_code == status:
            return
        time.sleep(0.05)
    raise AssertionError(f"it never answered {status}")
