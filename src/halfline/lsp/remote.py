"""The running server that completes, as the language server asks it: over HTTP, in halfline's own dialect.

Cancelling a question closes its connection, which ends the work there.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from halfline.errors import HalflineError

# A cold prompt on a slow machine takes seconds; by then nobody waits for ghost text any more.
_TIMEOUT_S = 30.0

BEFORE_CHARACTERS = 1 << 17
"""What is sent of the text before the cursor. The server sees less than that of it anyway."""

_BEHIND_CHARACTERS = 1 << 15


@dataclass(frozen=True, slots=True)
class Answer:
    """`completion_id` names it when something becomes of it."""

    completion_id: str
    text: str


class RemoteServer:
    """`user` is whose cursor it is: a newer question about a file replaces the older one of the same user."""

    def __init__(self, url: str, key: str | None, user: str) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._client = httpx.AsyncClient(
            base_url=url.rstrip("/").removesuffix("/v1"), headers=headers, timeout=_TIMEOUT_S
        )
        self._user = user

    async def complete(self, text: str, offset: int, path: str) -> Answer:
        """What belongs at the character `offset` of the file. Raises HalflineError in a sentence for people."""
        body = {
            "prompt": _sendable(text[window_start(text, offset) : offset]),
            "suffix": _sendable(text[offset : offset + _BEHIND_CHARACTERS]),
            "metadata": {"path": path},
            "user": self._user,
        }
        reply = await self._post("/v1/completions", body)
        try:
            said = reply.json()
            return Answer(said["id"], "" if said.get("superseded") else said["choices"][0]["text"])
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise HalflineError(
                f"{self._client.base_url} answers what is no completion: {reply.text[:200]!r}"
            ) from error

    async def accepted(self, completion_id: str) -> None:
        """Tell that the user took it. Raises HalflineError."""
        await self._post("/v1/events", {"type": "select", "completion_id": completion_id, "choice_index": 0})

    async def close(self) -> None:
        await self._client.aclose()

    async def _post(self, path: str, body: Mapping[str, object]) -> httpx.Response:
        try:
            reply = await self._client.post(path, json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise HalflineError(f"{self._client.base_url} cannot be reached: {reason}") from error
        if reply.status_code != 200:
            raise HalflineError(f"{self._client.base_url} says {reply.status_code}: {reply.text[:200]}")
        return reply


def _sendable(text: str) -> str:
    """An editor that sends its changes by UTF-16 units may send half of a character before the other half."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def window_start(text: str, offset: int) -> int:
    """From where on the text before `offset` is sent: the start of a line, unless the cursor's own is too long."""
    earliest = max(0, offset - BEFORE_CHARACTERS)
    if earliest == 0:
        return 0
    return text.find("\n", earliest, offset) + 1 or earliest
