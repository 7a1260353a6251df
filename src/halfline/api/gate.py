"""Who may ask for what: the API key of every request, looked at before anything else of it is.

It decides on the head alone. What a key is, and whether it is one, is `api/keys`'.
"""

import ipaddress
import re
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from halfline.api.keys.allowance import Allowances
from halfline.api.keys.key import Key
from halfline.api.keys.key_ring import KeyRing
from halfline.api.tenants import TENANT, WITHOUT_KEY
from halfline.errors import HalflineError, KeyRefused, NotPermitted, OverLimit

# Load balancers and editors ask these before anybody has given them a key.
_FOR_ALL = frozenset({"/health", "/v1/health"})

# What concerns all tenants at once.
_FOR_ADMINS = frozenset({"/metrics"})

_CANCEL = re.compile(r"/v1/completions/[^/]+/cancel")


class Gate:
    """Middleware: lets a request through as its key's tenant, or answers it by `respond`, in the words of the dialect
    that was spoken.
    """

    def __init__(
        self, app: ASGIApp, keys: KeyRing, respond: Callable[[Scope, HalflineError], Response]
    ) -> None:
        self._app = app
        self._keys = keys
        self._respond = respond
        self._allowances = Allowances()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _FOR_ALL:
            await self._app(scope, receive, send)
            return
        try:
            key = self._admit(scope)
            runs = key is not None and self._charge(key, scope)
        except HalflineError as error:
            await self._respond(scope, error)(scope, receive, send)
            return
        scope[TENANT] = WITHOUT_KEY if key is None else key.tenant
        try:
            await self._app(scope, receive, send)
        finally:
            if key is not None and runs:
                self._allowances.leave(key)

    def _admit(self, scope: Scope) -> Key | None:
        """Whose request it is; None: nobody needs a key. Raises KeyRefused, NotPermitted, KeysUnusable."""
        if not self._keys.required:
            if scope["path"] in _FOR_ADMINS and not _from_here(scope):
                raise NotPermitted(
                    f"{scope['path']} is told without a key on this machine only:"
                    " create one with `halfline key create --scope admin`"
                )
            return None
        sent = _sent_key(Headers(scope=scope))
        if sent is None:
            raise KeyRefused(
                "this server wants an API key, in `Authorization: Bearer`, `x-api-key` or `api-key`"
            )
        key = self._keys.find(sent)
        if scope["path"] in _FOR_ADMINS and key.scope != "admin":
            raise NotPermitted(f"{scope['path']} is for keys of the scope admin, this one's is {key.scope}")
        return key

    def _charge(self, key: Key, scope: Scope) -> bool:
        """Whether it took a place, to be left at its end. A request that is refused one is not counted.

        Raises OverLimit; then no place is taken.
        """
        takes_a_place = _takes_a_place(scope)
        if takes_a_place:
            self._allowances.enter(key)
        if _CANCEL.fullmatch(scope["path"]):  # who asked too much must be able to take it back
            return takes_a_place
        try:
            self._allowances.spend(key)
        except OverLimit:
            if takes_a_place:
                self._allowances.leave(key)
            raise
        return takes_a_place


def _sent_key(headers: Headers) -> str | None:
    """The first that is not empty: clients send `Bearer ` with nothing behind where they were given none."""
    kind, _, bearer = headers.get("authorization", "").partition(" ")
    found = [bearer.strip()] if kind.lower() == "bearer" else []
    found += [headers.get(name, "").strip() for name in ("x-api-key", "api-key")]
    return next((each for each in found if each), None)


def _takes_a_place(scope: Scope) -> bool:
    """Whether it counts among those that run at once: it may compute."""
    return scope["method"] == "POST" and not (
        scope["path"] == "/v1/events" or _CANCEL.fullmatch(scope["path"])
    )


def _from_here(scope: Scope) -> bool:
    """Whether the client is on this machine; one without an address came through a local socket."""
    client = scope.get("client")
    try:
        return client is None or ipaddress.ip_address(client[0]).is_loopback
    except ValueError:  # as a proxy in between calls it
        return False
