"""Whose request it is: the one place that decides it, for every dialect."""

from starlette.requests import Request

# Where in the ASGI scope the gate leaves the tenant.
TENANT = "halfline.tenant"

WITHOUT_KEY = "local"
"""The tenant of all who reach a port at which nobody is asked for a key."""


def tenant_of(request: Request) -> str:
    """The tenant whose KV, answers and receipts this request may touch."""
    tenant: str = request.scope[TENANT]
    return tenant
