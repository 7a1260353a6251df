"""The API key of a request and what it may still ask for, whichever port it came to.

What a key uses of one port is used of the other. Looks at heads alone, and knows neither HTTP nor gRPC.
"""

from starlette.datastructures import Headers

from halfline.api.keys.allowance import Allowances
from halfline.api.keys.key import Key
from halfline.api.keys.key_ring import KeyRing
from halfline.errors import KeyRefused, OverLimit

_ELSEWHERE = ("x-api-key", "api-key")


class Admission:
    """Lives on the event loop."""

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys
        self._allowances = Allowances()

    @property
    def wants_keys(self) -> bool:
        """Whether anybody needs one."""
        return self._keys.required

    def key_of(self, headers: Headers) -> Key | None:
        """Whose request it is, by its headers; None: nobody needs a key.

        Raises KeyRefused, KeysUnusable.
        """
        if not self.wants_keys:
            return None
        sent = _sent_key(headers)
        if sent is None:
            raise KeyRefused(
                "this server wants an API key, in `Authorization: Bearer`, `x-api-key` or `api-key`"
            )
        return self._keys.find(sent)

    def count(self, key: Key) -> None:
        """One request that computes nothing. Raises OverLimit when the minute's are used up."""
        self._allowances.spend(key)

    def enter(self, key: Key) -> None:
        """Count one request and take a place for it, until `leave`. One that is refused either costs nothing.

        Raises OverLimit; then no place is taken.
        """
        self._allowances.enter(key)
        try:
            self._allowances.spend(key)
        except OverLimit:
            self._allowances.leave(key)
            raise

    def leave(self, key: Key) -> None:
        """The place that `enter` took is free again."""
        self._allowances.leave(key)


def _sent_key(headers: Headers) -> str | None:
    """The first that is not empty: clients send `Bearer ` with nothing behind where they were given none.

    Raises KeyRefused for two of a kind: who stands in front of us may have looked at the other one.
    """
    for name in ("authorization", *_ELSEWHERE):
        if len(set(headers.getlist(name))) > 1:
            raise KeyRefused(f"this request has several `{name}`, and nobody can tell which is meant")
    kind, _, bearer = headers.get("authorization", "").partition(" ")
    found = [bearer.strip()] if kind.lower() == "bearer" else []
    found += [headers.get(name, "").strip() for name in _ELSEWHERE]
    return next((each for each in found if each), None)
