"""A server whose Redis is killed, or stands still, while it is asked: its answers stay as they are, nobody waits for
Redis, and they are shared again when it is back.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from redis_server import RedisServer

QUESTIONS = [f"def f{number}(a, b):\n    return" for number in range(4)]
ROUNDS = 3


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.go_on()
    server.kill()


@pytest.fixture(scope="module")
def server(
    start_server: Callable[..., Any], redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    return start_server(
        HALFLINE_CACHE_DIR=str(tmp_path_factory.mktemp("cache")),
        HALFLINE_CACHE__REDIS_URL=redis.url,
        HALFLINE_CACHE__MEMORY_BYTES="1200",  # two answers: the others are only in Redis
        HALFLINE_PIPELINE__SUGGESTIONS="off",
    ).wait_until_ready()


def ask(server: Any, prompt: str, control: str = "") -> tuple[str, str]:
    """The text, and where it came from."""
    reply = httpx.post(
        f"{server.url}/v1/completions",
        json={"prompt": prompt, "max_tokens": 3},
        headers={"Cache-Control": control} if control else {},
        timeout=60,
    )
    assert reply.status_code == 200
    return reply.json()["choices"][0]["text"], reply.headers["X-Cache"]


@pytest.fixture(scope="module")
def computed(server: Any) -> dict[str, str]:
    return {prompt: ask(server, prompt, "no-store")[0] for prompt in QUESTIONS}


def all_asked(server: Any) -> dict[str, tuple[str, str]]:
    return {prompt: ask(server, prompt) for prompt in QUESTIONS}


def failures(server: Any) -> float:
    return float(server.metric('halfline_cache_events_total{event="failed",place="redis"}'))


def until_shared(server: Any, computed: dict[str, str]) -> None:
    """Until most answers come from Redis, as memory holds but two; no wrong one comes meanwhile."""
    deadline = time.monotonic() + 60
    while True:
        answers = all_asked(server)
        assert {prompt: text for prompt, (text, _) in answers.items()} == computed
        if sum(tier == "exact" for _, tier in answers.values()) == len(QUESTIONS):
            return
        assert time.monotonic() < deadline


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_answers_stay_right_while_redis_is_gone_and_are_shared_when_it_is_back(
    server: Any, redis: RedisServer, computed: dict[str, str], how: str
) -> None:
    until_shared(server, computed)
    before = failures(server)
    goes, gone = (redis.kill, redis.start) if how == "killed" else (redis.stop, redis.go_on)
    asked = threading.Semaphore(0)

    def keep_asking() -> list[dict[str, tuple[str, str]]]:
        rounds = []
        for _ in range(ROUNDS):
            asked.release()
            rounds.append(all_asked(server))
        return rounds

    with ThreadPoolExecutor(2) as pool:
        asking: list[Future[list[dict[str, tuple[str, str]]]]] = [pool.submit(keep_asking) for _ in range(2)]
        asked.acquire(timeout=60)
        goes()
        rounds = [answers for each in asking for answers in each.result(120)]  # all are answered without it
    assert [{prompt: text for prompt, (text, _) in answers.items()} for answers in rounds] == [
        computed
    ] * 2 * ROUNDS
    last = all_asked(server)
    assert {prompt: text for prompt, (text, _) in last.items()} == computed
    assert "miss" in {tier for _, tier in last.values()}, "what only Redis held is computed"
    assert failures(server) > before
    gone()
    until_shared(server, computed)
