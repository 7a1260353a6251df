"""A real server with the embedded model: exact under load, unharmed by abuse, nothing left behind."""

import asyncio
import json
import os
import threading
import time
from pathlib import Path

import httpx
import pytest

MAX_TOKENS = 10
COMPUTED = {"Cache-Control": "no-store"}  # each time anew: nothing here is about answers that are known


def prompts(count: int) -> list[str]:
    return [f"# file number {n}\ndef function_{n}(x):\n    return x" for n in range(count)]


async def stream(client: httpx.AsyncClient, prompt: str, leave_after: int | None = None) -> str:
    """The streamed text; `leave_after` closes the connection after so many events."""
    text, num_events = "", 0
    body = {"prompt": prompt, "max_tokens": MAX_TOKENS, "stream": True}
    async with client.stream("POST", "/v1/completions", json=body) as reply:
        assert reply.status_code == 200
        async for line in reply.aiter_lines():
            if line.startswith("data: {"):
                text += json.loads(line[6:])["choices"][0]["text"]
                num_events += 1
                if num_events == leave_after:
                    break
    return text


def resources(pid: int) -> tuple[int, int]:
    """Open files and threads of a process."""
    return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))


def wait_until_idle(server) -> None:
    deadline = time.monotonic() + 30
    while server.metric('halfline_sequences{state="running"}') + server.metric(
        'halfline_sequences{state="waiting"}'
    ):
        assert time.monotonic() < deadline, "sequences of clients that left still run"
        time.sleep(0.05)


def test_fifty_streams_of_which_twenty_leave_give_the_others_what_each_gets_alone(server) -> None:
    texts = prompts(50)

    async def together() -> list[str]:
        limits = httpx.Limits(max_connections=50)
        async with httpx.AsyncClient(
            base_url=server.url, timeout=120, limits=limits, headers=COMPUTED
        ) as client:
            return await asyncio.gather(
                *(stream(client, text, leave_after=2 if n % 5 < 2 else None) for n, text in enumerate(texts))
            )

    async def alone(stayed: list[str]) -> list[str]:
        async with httpx.AsyncClient(base_url=server.url, timeout=120, headers=COMPUTED) as client:
            return [await stream(client, text) for text in stayed]

    # Once before counting: the first requests open what stays open.
    asyncio.run(together())
    wait_until_idle(server)
    num_blocks = sum(
        server.metric(f'halfline_kv_blocks{{state="{state}"}}') for state in ("held", "cached", "blank")
    )
    before = resources(server.process.pid)
    results = asyncio.run(together())
    wait_until_idle(server)

    assert server.metric('halfline_kv_blocks{state="held"}') == 0
    assert num_blocks == sum(
        server.metric(f'halfline_kv_blocks{{state="{state}"}}') for state in ("cached", "blank")
    )
    after = resources(server.process.pid)
    assert after[0] <= before[0] + 1
    assert after[1] <= before[1]
    stayed = [n for n in range(50) if n % 5 >= 2]
    assert [results[n] for n in stayed] == asyncio.run(alone([texts[n] for n in stayed]))
    assert server.metric('halfline_completions_total{finish_reason="cancelled"}') >= 20


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_closes_its_connection_ends_its_work(server, streamed) -> None:
    before = server.metric("halfline_run_tokens_total")
    body = {"prompt": "def f():", "max_tokens": 4000, "ignore_eos": True, "stream": streamed}
    with pytest.raises(httpx.ReadTimeout):
        if streamed:
            with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=1.0) as reply:
                next(reply.iter_raw())
                raise httpx.ReadTimeout("left")
        httpx.post(f"{server.url}/v1/completions", json=body, timeout=1.0)
    wait_until_idle(server)
    assert server.metric("halfline_run_tokens_total") - before < 3000
    assert server.metric('halfline_kv_blocks{state="held"}') == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"prompt": "x " * 9000}, 400),
        ({"prompt": "x" * 20_000_000}, 413),
        ({"prompt": "x", "max_tokens": 10_000_000}, 400),
        ({"prompt": [10**6]}, 400),
        ({"prompt": [[1], [2**31 - 1]]}, 400),
        ({"prompt": "x", "logit_bias": {"999999": 1}}, 400),
        ({"prompt": "x", "temperature": "NaN"}, 400),
    ],
    ids=["long", "huge", "many", "token", "tokens", "bias", "nan"],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_abuse_is_answered_with_its_reason_and_the_next_request_works(server, body, status, streamed) -> None:
    body = {"stream": streamed, **body}
    reply = httpx.post(f"{server.url}/v1/completions", json=body, timeout=60)
    assert reply.status_code == status, reply.text
    assert len(reply.json()["error"]["message"]) > 20
    after = httpx.post(f"{server.url}/v1/completions", json={"prompt": "1 +", "max_tokens": 1}, timeout=60)
    assert after.status_code == 200
    assert after.json()["usage"]["completion_tokens"] == 1


def test_a_client_that_sends_half_a_request_and_leaves_harms_nobody(server) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    import socket

    for sent in (
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
        b"\x00\xff\r\n\r\n",
    ):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(sent)
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_echo_with_logprobs_scores_a_prompt_warm_as_cold(server) -> None:
    body = {"prompt": prompts(1)[0] + " # scored", "max_tokens": 0, "echo": True, "logprobs": 2}
    cold, warm = (httpx.post(f"{server.url}/v1/completions", json=body, timeout=60).json() for _ in range(2))
    assert cold["choices"][0]["text"] == body["prompt"]
    assert cold["choices"][0]["logprobs"]["token_logprobs"][0] is None
    assert cold["choices"] == warm["choices"]


def test_the_receipt_says_what_was_reused(server) -> None:
    body = {"prompt": "import os\n" * 40, "max_tokens": 1}
    for _ in range(2):
        reply = httpx.post(f"{server.url}/v1/completions", json=body, timeout=60).json()
    usage = reply["usage"]
    why = httpx.get(f"{server.url}/v1/completions/{reply['id']}/why").json()
    assert usage["prompt_tokens_details"]["cached_tokens"] == why["num_reused_tokens"] > 0
    assert why["num_reused_tokens"] + why["num_computed_tokens"] >= usage["prompt_tokens"]


def test_logs_hold_no_prompt_and_no_completion(server) -> None:
    body = {"prompt": "swordfish_marker = ", "max_tokens": 2, "user": "someone_marker"}
    reply = httpx.post(
        f"{server.url}/v1/completions", json=body, headers={"Authorization": "Bearer key_marker"}, timeout=60
    )
    identity = reply.json()["id"]
    deadline = time.monotonic() + 10
    while not any(identity in line for line in server.log):
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)
    assert not any("_marker" in line for line in server.log)


def test_nothing_outside_this_machine_was_ever_contacted(server) -> None:
    # Runs last: the guard of conftest.py ends the process at the first attempt.
    assert server.process.poll() is None
    assert not any("outbound traffic" in line for line in server.log)


def test_the_embedded_model_s_file_is_what_is_served(server, embedded_model: Path) -> None:
    (card,) = httpx.get(f"{server.url}/v1/models").json()["data"]
    assert card["id"] == embedded_model.stem
    assert card["max_model_len"] > 1000
