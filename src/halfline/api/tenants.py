"""Whose request it is: the one place that decides it, for every dialect."""

from starlette.requests import Request


def tenant_of(request: Request) -> str:
    """The tenant whose KV, answers and receipts this request may touch.

    Nobody is asked for a key yet: all who reach the port are one tenant.
    """
    return "local"
