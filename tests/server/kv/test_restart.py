"""A server that is killed and started again knows the prompts it had saved; one that is not told to saves nothing."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

PATIENCE_S = 60.0
PROMPT = "".join(f"def step_{number}(value):\n    return value + {number}\n\n" for number in range(24))


def complete(server: Any) -> tuple[str, int, int]:
    """The text, how many tokens the prompt has, and how many of them were reused."""
    body = {"prompt": PROMPT, "max_tokens": 8}
    reply = httpx.post(f"{server.url}/v1/completions", json=body, timeout=PATIENCE_S)
    assert reply.status_code == 200, reply.text
    usage = reply.json()["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    return reply.json()["choices"][0]["text"], usage["prompt_tokens"], cached


def test_a_killed_server_computes_at_most_one_block_of_a_known_prompt(
    start_server: Callable[..., Any], tmp_path: Path
) -> None:
    kept = {"HALFLINE_KV_DISK_BYTES": "1GiB", "HALFLINE_CACHE_DIR": str(tmp_path)}
    server = start_server(**kept).wait_until_ready()
    text, num_tokens, cached = complete(server)
    assert cached == 0
    give_up_at = time.monotonic() + PATIENCE_S
    while len(list((tmp_path / "kv").glob("*.kv"))) < (num_tokens - 1) // 16:
        assert time.monotonic() < give_up_at, "the blocks were not saved while the server had nothing to do"
        time.sleep(0.05)
    assert server.end(signal.SIGKILL) == -signal.SIGKILL

    server = start_server(**kept).wait_until_ready()
    again, _, cached = complete(server)
    assert again == text
    assert num_tokens - cached <= 16
    assert server.metric('halfline_kv_disk_blocks_total{direction="fetched"}') == (num_tokens - 1) // 16
    assert server.end(signal.SIGTERM) == 0


def test_by_default_nothing_is_written(start_server: Callable[..., Any], tmp_path: Path) -> None:
    server = start_server(HALFLINE_CACHE_DIR=str(tmp_path)).wait_until_ready()
    complete(server)
    assert server.end(signal.SIGTERM) == 0
    assert list(tmp_path.iterdir()) == []
