"""Whole answers as text, each under an address of its own, for clients that fetch them again by that (RFC 9110, 9111).

The address is a digest of everything that decided the answer, and of the answer: what is found there is what was
replied, whatever the same question is answered later. What another model left is not found.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from halfline.cache.exact import KEPT_REASONS
from halfline.cache.store import Store
from halfline.request import Choice

ADDRESS_BYTES = 32


@dataclass(frozen=True, slots=True)
class Fragment:
    """`body` is JSON, the same bytes each time; `etag` is of them. It is good for `max_age_s` seconds more."""

    body: bytes
    etag: str
    max_age_s: float


class Fragments:
    """Lives on the event loop. `scope` says what computes: fragments of another are never found."""

    def __init__(self, store: Store, scope: bytes, max_age_s: float) -> None:
        self._store = store
        self._scope = scope
        self._max_age_s = max_age_s

    def put(self, tenant: str, question: bytes, choices: Sequence[Choice]) -> str | None:
        """Where the answer to the question is kept from now on, in hexadecimal digits; None: it is not, because a part
        of it was called off or because it is too large.
        """
        if not all(each.finish_reason in KEPT_REASONS for each in choices):
            return None
        told = [
            {"index": each.index, "text": each.text, "finish_reason": each.finish_reason} for each in choices
        ]
        digest = blake2b(question + json.dumps(told).encode(), digest_size=ADDRESS_BYTES)
        key = self._key(tenant, digest.digest())
        if not self._store.holds(key):  # else it is the same
            body = {"object": "fragment", "id": digest.hexdigest(), "choices": told}
            self._store.put(key, json.dumps(body, separators=(",", ":")).encode())
        return digest.hexdigest() if self._store.holds(key) else None

    async def get(self, tenant: str, address: str) -> Fragment | None:
        """None where there is none, or it is another tenant's."""
        try:
            raw = bytes.fromhex(address)
        except ValueError:
            return None
        key = self._key(tenant, raw)
        if not self._store.holds(key) and self._store.may_fetch(key):
            await self._store.fetch(key)
        body = self._store.get(key, "http")
        if body is None:
            return None
        age_s = self._store.age_s(key) or 0.0
        etag = f'"{blake2b(body, digest_size=16).hexdigest()}"'
        return Fragment(body, etag, max(0.0, self._max_age_s - age_s))

    def _key(self, tenant: str, address: bytes) -> bytes:
        """Whoever learns of another tenant's address finds nothing there."""
        name = tenant.encode("utf-8", "surrogatepass")
        parts = (self._scope, name, address)
        framed = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
        return blake2b(b"fragment" + framed, digest_size=32).digest()
