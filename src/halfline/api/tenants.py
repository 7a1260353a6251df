"""Whose request it is: the one place that decides it, for every dialect."""

from starlette.requests import Request

# Where in the ASGI scope the gate leaves the tenant, and the key's id.
TENANT = "halfline.tenant"
KEY_ID = "halfline.key_id"

WITHOUT_KEY = "local"
"""The tenant of all who reach a port at which nobody is asked for a key."""


NO_KEY_ID = ""
"""The id of the key of all who reach such a port: to the engine they are one key."""


def tenant_of(request: Request) -> str:
    """The tenant whose KV, answers and receipts this request may touch."""
    tenant: str = request.scope[TENANT]
    return tenant


def key_id_of(request: Request) -> str:
    """The key that this request's turns are counted for, and within which a newer request replaces an older."""
    key_id: str = request.scope[KEY_ID]
    return key_id
