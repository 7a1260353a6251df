"""The caches in a server with the embedded model: what a client sees of them, and what outlives the server."""

import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

Start = Callable[..., Any]

LARGEST = """\
def largest(numbers):
    best = numbers[0]
    for number in numbers:
        if number > best:
            """
RENAMED = LARGEST.replace("largest", "greatest").replace("number", "value").replace("best", "top")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("caches")


@pytest.fixture(scope="module")
def caching(start_server: Start, folder: Path) -> Any:
    return start_caching(start_server, folder)


def start_caching(start_server: Start, folder: Path) -> Any:
    return start_server(
        HALFLINE_CACHE_DIR=str(folder),
        HALFLINE_CACHE__DISK_BYTES="16MiB",
        HALFLINE_CACHE__SYNTAX="on",
        HALFLINE_CACHE__SEMANTIC="on",
        HALFLINE_WARMUP__SHARE="0",
    ).wait_until_ready()


def ask(server: Any, control: str = "", **body: Any) -> httpx.Response:
    headers = {"Cache-Control": control} if control else {}
    reply = httpx.post(
        f"{server.url}/v1/completions", json={"max_tokens": 8, **body}, headers=headers, timeout=60
    )
    assert reply.status_code == 200
    return reply


def text(reply: httpx.Response) -> str:
    said: str = reply.json()["choices"][0]["text"]
    return said


def test_the_same_question_is_known_and_cache_control_is_heeded(caching: Any) -> None:
    question = {"prompt": "def fib(n):\n"}
    first = ask(caching, **question)
    again = ask(caching, **question)
    assert (first.headers["X-Cache"], again.headers["X-Cache"]) == ("miss", "exact")
    for control in ("no-cache", "no-store"):
        anew = ask(caching, control, **question)
        assert (anew.headers["X-Cache"], text(anew)) == ("miss", text(first))
    assert text(again) == text(first)
    secret = {"prompt": "def secret(n):\n"}
    assert ask(caching, "no-store", **secret).headers["X-Cache"] == "miss"
    assert ask(caching, **secret).headers["X-Cache"] == "miss"
    drawn = {"prompt": "def fib(n):\n", "temperature": 0.8}
    assert {ask(caching, **drawn).headers["X-Cache"] for _ in range(2)} == {"miss"}
    seeded = [ask(caching, seed=5, **drawn) for _ in range(2)]
    assert [each.headers["X-Cache"] for each in seeded] == ["miss", "exact"]
    assert text(seeded[0]) == text(seeded[1])


def test_an_answer_is_fetched_by_its_address_and_not_sent_twice(caching: Any) -> None:
    reply = ask(caching, prompt="def gcd(a, b):\n")
    url = caching.url + reply.headers["Content-Location"]
    fragment = httpx.get(url)
    assert (fragment.status_code, fragment.headers["X-Cache"]) == (200, "http")
    assert fragment.json()["choices"][0]["text"] == text(reply)
    again = httpx.get(url, headers={"If-None-Match": fragment.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_function_with_other_names_is_answered_from_the_syntax_tree(caching: Any) -> None:
    def at_cursor(prompt: str, control: str = "") -> httpx.Response:
        body = {"prompt": prompt, "suffix": "", "metadata": {"path": "a.py"}, "postprocess": False}
        return ask(caching, control, max_tokens=6, **body)

    assert at_cursor(LARGEST).headers["X-Cache"] == "miss"
    renamed = at_cursor(RENAMED)
    assert renamed.headers["X-Cache"] == "syntax"
    assert text(renamed) == text(at_cursor(RENAMED, "no-store"))
    assert text(renamed).startswith("top = value")
    assert caching.metric('halfline_guessed_tokens_total{tier="syntax"}') >= 1


def num_on_disk(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "answers.sqlite")) as connection:
        (count,) = connection.execute("select count(*) from answers").fetchone()
    return int(count)


def test_answers_outlive_a_server_that_was_killed(start_server: Start, caching: Any, folder: Path) -> None:
    question = {"prompt": "def outlives(n):\n"}
    num_before = num_on_disk(folder)
    first = ask(caching, **question)
    deadline = time.monotonic() + 60
    while num_on_disk(folder) == num_before:  # written a moment later
        assert time.monotonic() < deadline
        time.sleep(0.01)
    caching.end(signal.SIGKILL)
    again = ask(start_caching(start_server, folder), **question)
    assert (again.headers["X-Cache"], text(again)) == ("exact", text(first))
