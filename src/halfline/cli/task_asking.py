"""`halfline task run --server`: the answer out of a running server's stream."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from halfline.cli.asking import TIMEOUT_S, origin, write_answer
from halfline.errors import HalflineError
from halfline.request import Part


def run_there(
    url: str,
    task: str,
    placeholders: Mapping[str, object],
    files: Sequence[Part],
    version: str | None,
    max_tokens: int | None,
    key: str | None = None,
) -> None:
    """A task that has no such name there is looked for by its words. Raises HalflineError, in the server's words if it
    refuses.
    """
    if key is not None and not key.isascii():
        raise HalflineError("the API key has characters beyond ASCII, which no header takes")
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    body: dict[str, object] = {"placeholders": placeholders, "version": version, "max_tokens": max_tokens}
    body |= {"context": [{"path": each.path, "text": each.text} for each in files] or None, "stream": True}
    try:
        with httpx.Client(base_url=origin(url), headers=headers, timeout=TIMEOUT_S) as client:
            names = {each["name"] for each in client.get("/v1/tasks").raise_for_status().json()["data"]}
            if task in names:
                write_answer(client, f"/v1/tasks/{task}", body, _text_of)
            else:
                write_answer(client, "/v1/tasks", {**body, "task": task}, _text_of)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise HalflineError(f"the server at {url} cannot be reached or broke off: {error}") from error
    except (json.JSONDecodeError, UnicodeDecodeError, LookupError, TypeError, AttributeError) as error:
        raise HalflineError(f"what answers at {url} does not speak as halfline does: {error!r}") from error


def _text_of(choice: Any) -> str:
    text: str = choice["delta"].get("content", "")
    return text
