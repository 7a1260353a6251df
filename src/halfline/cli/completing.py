"""Where `halfline complete` gets its text from: an engine in this process, or a server's stream.

Text goes to standard output as it comes, byte for byte; what it cost goes to standard error at the end.
"""

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import httpx

from halfline.cli.loading import find_model, load_model
from halfline.errors import HalflineError
from halfline.request import ChoiceDelta, CompletionRequest, Document, Receipt, SamplingParams
from halfline.settings import Settings

# A cold prompt on a slow machine takes seconds; a server that says nothing for a minute is gone.
_TIMEOUT_S = 60.0


def complete_here(settings: Settings, document: Document, max_tokens: int) -> None:
    """Load the model into this process, complete, free it. Raises HalflineError."""
    ready = load_model(settings, find_model(settings))
    request = CompletionRequest(
        id=f"cmpl-{uuid.uuid4().hex}", prompt=document, params=SamplingParams(), max_tokens=max_tokens
    )
    try:
        asyncio.run(_print_deltas(ready.pipeline.stream(request)))
        receipt = ready.pipeline.receipt(request.id)
        if receipt is None:
            raise HalflineError("the completion ended without a receipt")
        _print_costs(_numbers(receipt), f"loading the model {ready.load_s * 1000:.0f} ms, ")
    finally:
        ready.loaded.close()


def complete_there(url: str, document: Document, max_tokens: int) -> None:
    """Ask the server at `url`. Raises HalflineError with the server's own words when it refuses."""
    body = {
        "prompt": document.prefix,
        "suffix": document.suffix,
        "metadata": {} if document.path is None else {"path": document.path},
        "max_tokens": max_tokens,
        "stream": True,
    }
    try:
        with httpx.Client(base_url=url, timeout=_TIMEOUT_S) as client:
            completion_id = _print_stream(client, body)
            _print_costs(client.get(f"/v1/completions/{completion_id}/why").raise_for_status().json())
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise HalflineError(f"the server at {url} cannot be reached or broke off: {error}") from error


async def _print_deltas(deltas: AsyncIterator[ChoiceDelta]) -> None:
    async for delta in deltas:
        _write(delta.text)


def _print_stream(client: httpx.Client, body: Mapping[str, object]) -> str:
    """Write the choice's text as it comes; the completion's id."""
    completion_id = ""
    with client.stream("POST", "/v1/completions", json=body) as reply:
        if reply.status_code != 200:
            raise HalflineError(f"the server says: {_message(reply.read())}")
        for chunk in _events(reply.iter_lines()):
            if "error" in chunk:
                raise HalflineError(f"the server says: {chunk['error']['message']}")
            completion_id = chunk["id"]
            _write(chunk["choices"][0]["text"])
    return completion_id


def _events(lines: Iterator[str]) -> Iterator[Any]:
    """The JSON of each server-sent event up to [DONE]."""
    for line in lines:
        if line == "data: [DONE]":
            return
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def _message(body: bytes) -> str:
    """What an error body says; another server's may have any form."""
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _numbers(receipt: Receipt) -> Mapping[str, Any]:
    names = ("num_prompt_tokens", "num_reused_tokens", "num_generated_tokens")
    times = ("queue_ms", "prefill_ms", "decode_ms", "total_ms")
    return {name: getattr(receipt, name) for name in names + times}


def _print_costs(receipt: Mapping[str, Any], before: str = "") -> None:
    print(
        f"\n{before}prompt {receipt['num_prompt_tokens']} tokens ({receipt['num_reused_tokens']} reused)"
        f" in {receipt['prefill_ms']:.0f} ms, {receipt['num_generated_tokens']} tokens"
        f" in {receipt['decode_ms']:.0f} ms, total {receipt['total_ms']:.0f} ms",
        file=sys.stderr,
    )
