"""Whole answers as text, each under the address of its question, for clients that ask again by that (RFC 9110, 9111).

The address is a digest of everything that decides the answer, the model among it, so what is found there is what the
same question would be answered today; when the model is another one there is nothing under the old address.
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
    """Lives on the event loop."""

    def __init__(self, store: Store, max_age_s: float) -> None:
        self._store = store
        self._max_age_s = max_age_s

    def put(self, tenant: str, address: bytes, choices: Sequence[Choice]) -> None:
        """Keep an answer, unless somebody called off a part of it; one that is there is the same."""
        key = _key(tenant, address)
        if self._store.holds(key) or not all(each.finish_reason in KEPT_REASONS for each in choices):
            return
        body = {
            "object": "fragment",
            "id": address.hex(),
            "choices": [
                {"index": each.index, "text": each.text, "finish_reason": each.finish_reason}
                for each in choices
            ],
        }
        self._store.put(key, json.dumps(body, separators=(",", ":")).encode())

    async def get(self, tenant: str, address: str) -> Fragment | None:
        """None where there is none, or it is another tenant's."""
        try:
            raw = bytes.fromhex(address)
        except ValueError:
            return None
        key = _key(tenant, raw)
        body = self._store.get(key)
        if body is None:
            body = await self._store.fetch(key)
        if body is None:
            return None
        age_s = self._store.age_s(key) or 0.0
        etag = f'"{blake2b(body, digest_size=16).hexdigest()}"'
        return Fragment(body, etag, max(0.0, self._max_age_s - age_s))


def _key(tenant: str, address: bytes) -> bytes:
    """Whoever learns of another tenant's address finds nothing there."""
    name = tenant.encode("utf-8", "surrogatepass")
    return blake2b(b"fragment" + len(name).to_bytes(8, "little") + name + address, digest_size=32).digest()
