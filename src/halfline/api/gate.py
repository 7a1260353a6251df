"""Who may ask for what: the API key of every request, looked at before anything else of it is.

It decides on the head alone. Whether that holds a key is `admission`'s to say, and where nobody needs one, whether a
web page sent it `local_names`'.
"""

import re
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from halfline.api.admission import Admission
from halfline.api.keys.key import Key
from halfline.api.local_names import LocalNames, is_loopback
from halfline.api.tenants import KEY_ID, NO_KEY_ID, TENANT, WITHOUT_KEY
from halfline.errors import HalflineError, NotPermitted

# Load balancers and editors ask these before anybody has given them a key.
FOR_ALL = frozenset({"/", "/health", "/v1/health"})

# What concerns all tenants at once.
_FOR_ADMINS = frozenset({"/metrics"})

_CANCEL = re.compile(r"/v1/completions/[^/]+/cancel")


class Gate:
    """Middleware: lets a request through as its key's tenant, or answers it by `respond`, in the words of the dialect
    that was spoken. `local` says whom it answers without keys; None: everybody.
    """

    def __init__(
        self,
        app: ASGIApp,
        admission: Admission,
        respond: Callable[[Scope, HalflineError], Response],
        local: LocalNames | None = None,
    ) -> None:
        self._app = app
        self._admission = admission
        self._respond = respond
        self._local = local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            if self._local is not None and not self._admission.wants_keys:
                self._local.check(Headers(scope=scope))
            for_all = scope["path"] in FOR_ALL
            key = None if for_all else self._admit(scope)
            runs = key is not None and self._charge(key, scope)
        except HalflineError as error:
            await self._respond(scope, error)(scope, receive, send)
            return
        scope[TENANT] = WITHOUT_KEY if key is None else key.tenant
        scope[KEY_ID] = NO_KEY_ID if key is None else key.id
        try:
            await self._app(scope, receive, send)
        finally:
            if key is not None and runs:
                self._admission.leave(key)

    def _admit(self, scope: Scope) -> Key | None:
        """Whose request it is; None: nobody needs a key. Raises KeyRefused, NotPermitted, KeysUnusable."""
        key = self._admission.key_of(Headers(scope=scope))
        if scope["path"] in _FOR_ADMINS:
            if key is None and not _from_here(scope):
                raise NotPermitted(
                    f"{scope['path']} is told without a key on this machine only:"
                    " create one with `halfline key create --scope admin`"
                )
            if key is not None and key.scope != "admin":
                raise NotPermitted(
                    f"{scope['path']} is for keys of the scope admin, this one's is {key.scope}"
                )
        return key

    def _charge(self, key: Key, scope: Scope) -> bool:
        """Whether it took a place, to be left at its end. Raises OverLimit; then no place is taken."""
        if _CANCEL.fullmatch(scope["path"]):  # who asked too much must be able to take it back
            return False
        if not _may_compute(scope):
            self._admission.count(key)
            return False
        self._admission.enter(key)
        return True


def _may_compute(scope: Scope) -> bool:
    """Whether it counts among those that run at once."""
    return bool(scope["method"] == "POST" and scope["path"] != "/v1/events")


def _from_here(scope: Scope) -> bool:
    """Whether the client is on this machine; one without an address came through a local socket."""
    client = scope.get("client")
    return client is None or is_loopback(client[0])
