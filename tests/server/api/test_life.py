"""How a server starts, ends and is started again; what `halfline complete` does with and without one."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

LONG = {"prompt": "def f():", "max_tokens": 4000, "ignore_eos": True, "stream": True}


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_gives_running_requests_their_last_event_and_ends_with_code_0(start_server, sig) -> None:
    server = start_server(HALFLINE_API__GRACE_S="0.5").wait_until_ready()
    received: list[str] = []
    started = threading.Event()

    def read() -> None:
        with httpx.stream("POST", f"{server.url}/v1/completions", json=LONG, timeout=60) as reply:
            for line in reply.iter_lines():
                if line:
                    received.append(line.removeprefix("data: "))
                    started.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert started.wait(60)
    assert server.end(sig) == 0
    reader.join(10)
    assert received[-1] == "[DONE]"
    assert json.loads(received[-2])["choices"][0]["finish_reason"] == "cancelled"


def test_a_request_that_ends_within_the_grace_period_is_finished(start_server) -> None:
    server = start_server(HALFLINE_API__GRACE_S="30").wait_until_ready()
    replies: list[httpx.Response] = []
    body = {"prompt": "def f():", "max_tokens": 30, "ignore_eos": True}
    asking = threading.Thread(
        target=lambda: replies.append(httpx.post(f"{server.url}/v1/completions", json=body, timeout=60))
    )
    asking.start()
    while not server.metric('halfline_sequences{state="running"}') and not replies:
        time.sleep(0.01)
    assert server.end(signal.SIGTERM) == 0
    asking.join(10)
    assert replies[0].json()["usage"]["completion_tokens"] == 30


def test_a_killed_server_leaves_nothing_that_stops_the_next_one(start_server) -> None:
    server = start_server().wait_until_ready()
    port = server.url.rsplit(":", 1)[1]
    with httpx.stream("POST", f"{server.url}/v1/completions", json=LONG, timeout=60) as reply:
        next(reply.iter_raw())
        assert server.end(signal.SIGKILL) == -signal.SIGKILL
    again = start_server("--port", port).wait_until_ready()
    reply = httpx.post(f"{again.url}/v1/completions", json={"prompt": "1", "max_tokens": 1}, timeout=60)
    assert reply.status_code == 200
    assert again.end(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("arguments", "environment", "sentence"),
    [
        (("--model", "/no/such.gguf"), {}, "no file or folder /no/such.gguf"),
        (("--model", __file__), {}, "not a GGUF file"),
        (("--host", "0.0.0.0"), {}, "--insecure-open"),
        ((), {"HALFLINE_PROT": "1"}, "did you mean HALFLINE_PORT?"),
        ((), {"HALFLINE_KV_BYTES": "10"}, "kv_bytes is 10"),
        (("--settings", "/no/such.toml"), {}, "/no/such.toml"),
    ],
)
def test_a_server_that_cannot_serve_says_why_in_one_sentence_and_returns_2(
    start_server, arguments, environment, sentence
) -> None:
    server = start_server(*arguments, **environment)
    assert server.process.wait(60) == 2
    server.wait_log_end()
    said = [line for line in server.log if line.startswith("halfline: ")]
    assert len(said) == 1, server.log
    assert sentence in said[0]
    assert not any("Traceback" in line for line in server.log)


def test_a_taken_port_is_one_sentence_and_exit_code_2(server, start_server) -> None:
    port = server.url.rsplit(":", 1)[1]
    second = start_server("--port", port)
    assert second.process.wait(60) == 2
    second.wait_log_end()
    assert len(second.log) == 1
    assert f"port {port}" in second.log[0]


def test_complete_prints_the_same_text_with_and_without_a_server(
    server, guarded, embedded_model: Path, tmp_path: Path
) -> None:
    file = tmp_path / "add.py"
    file.write_text("def add(a, b):\n    return \n\nprint(add(1, 2))\n")
    arguments = ["complete", f"{file}:2:12", "--max-tokens", "8"]
    here = guarded(*arguments, "--model", str(embedded_model))
    there = guarded(*arguments, "--server", server.url)
    marked = guarded(
        "complete",
        *("--stdin", "--cursor", "|", "--max-tokens", "8", "--server", server.url),
        stdin="def add(a, b):\n    return |\n",
    )
    for result in (here, there, marked):
        assert result.returncode == 0, result.stderr
        assert "tokens (" in result.stderr
    assert here.stdout == there.stdout != ""
    assert "loading the model" in here.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("FILE:99:1",), "no line 99"),
        (("FILE:1:99",), "no column 99"),
        (("FILE",), "write FILE:LINE:COL"),
        (("/no/such/file.py:1:1",), "cannot be read"),
        ((), "--stdin"),
        (("FILE:1:1", "--server", "http://127.0.0.1:9"), "cannot be reached"),
    ],
)
def test_complete_says_in_one_sentence_what_it_cannot_do(guarded, tmp_path, arguments, sentence) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1\n")
    result: subprocess.CompletedProcess[str] = guarded(
        "complete", *(argument.replace("FILE", str(file)) for argument in arguments)
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("halfline: ")
    assert result.stderr.count("\n") == 1
    assert sentence in result.stderr


def test_complete_takes_the_base_url_that_the_greeting_hands_out(server, guarded) -> None:
    result = guarded(
        "complete", "--stdin", "--max-tokens", "2", "--server", f"{server.url}/v1", stdin="x = <CURSOR>"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout


@pytest.mark.parametrize("max_tokens", ["4", "99999999999"])
def test_complete_frees_the_model_however_it_ends(guarded, embedded_model: Path, max_tokens: str) -> None:
    """What outlives the interpreter is reported by nanobind, under the one sentence."""
    arguments = ("complete", "--stdin", "--model", str(embedded_model), "--max-tokens", max_tokens)
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "halfline", *arguments],
            input="x = <CURSOR>",
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert result.returncode == 2
    assert result.stderr.startswith("halfline: ")
    assert result.stderr.count("\n") == 1, result.stderr


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("complete", "--stdin"), ("model", "inspect")])
def test_a_damaged_stored_model_is_refused_with_how_to_repair_it(
    guarded, embedded_model: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    shutil.copytree(embedded_model.parent, tmp_path / "models" / embedded_model.parent.name)
    os.truncate(tmp_path / "models" / embedded_model.parent.name / embedded_model.name, 1_000_000)
    result = guarded(*command, "--data-dir", str(tmp_path), stdin="x = <CURSOR>")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert result.stderr.endswith("; repair with `halfline model pull smollm2-135m`\n"), result.stderr
