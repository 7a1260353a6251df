"""`halfline complete --server`: the text out of a running server's stream, and how a stream is read."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx

from halfline.cli.completion_output import print_costs, write_text
from halfline.errors import HalflineError
from halfline.request import Document

# A cold prompt on a slow machine takes seconds; a server that says nothing for a minute is gone.
TIMEOUT_S = 60.0


def complete_there(
    url: str, document: Document, max_tokens: int | None, profile: str | None, key: str | None = None
) -> None:
    """Ask the server at `url`, which may end in `/v1`, with the API key if there is one. Raises HalflineError, in its
    words if it refuses.
    """
    body = {
        "prompt": document.prefix,
        "suffix": document.suffix,
        "metadata": {} if document.path is None else {"path": document.path},
        "max_tokens": max_tokens,
        "profile": profile,
        "stream": True,
    }
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        with httpx.Client(base_url=origin(url), headers=headers, timeout=TIMEOUT_S) as client:
            write_answer(client, "/v1/completions", body, lambda choice: choice["text"])
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise HalflineError(f"the server at {url} cannot be reached or broke off: {error}") from error


def origin(url: str) -> str:
    """Without the `/v1` of the base URL that editors are given; both are a server's address."""
    return url.rstrip("/").removesuffix("/v1")


def write_answer(
    client: httpx.Client, path: str, body: Mapping[str, object], text_of: Callable[[Any], str]
) -> None:
    """What the server streams: `text_of` each choice as it comes, and then what it all cost."""
    completion_id = ""
    with client.stream("POST", path, json=body) as reply:
        if reply.status_code != 200:
            raise HalflineError(f"the server says: {_message(reply.read())}")
        for chunk in _events(reply.iter_lines()):
            if "error" in chunk:
                raise HalflineError(f"the server says: {chunk['error']['message']}")
            completion_id = chunk["id"]
            for choice in chunk["choices"]:
                write_text(text_of(choice))
    print_costs(client.get(f"/v1/completions/{completion_id}/why").raise_for_status().json())


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
