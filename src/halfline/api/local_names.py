"""Whom a server answers that asks nobody for a key because only this machine reaches it: nobody sent by a web page.

A browser on this machine sends what any page tells it to. It names that page as the request's origin; where the page's
own name was made to mean this machine (DNS rebinding) there is no foreign origin, but the name stands in `Host`.
"""

import ipaddress
import re
from collections.abc import Collection

from starlette.datastructures import Headers

from halfline.errors import NotPermitted

_HOST = re.compile(r"(?:\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<name>[^:\[\]/@]+))(?::\d*)?", re.ASCII | re.IGNORECASE)


class LocalNames:
    """`hosts` are names of this server beside those of every machine for itself, `origins` those of pages that may ask
    it, or "*".
    """

    def __init__(self, hosts: Collection[str], origins: Collection[str]) -> None:
        self._hosts = {host.lower() for host in hosts}
        self._origins = set(origins)

    def check(self, headers: Headers) -> None:
        """Any port is ours, and who names no host is no browser. Raises NotPermitted."""
        for host in headers.getlist("host"):
            if not self._is_ours(host):
                raise NotPermitted(
                    f"this server asks nobody for a key and so does not answer to the name {_short(host)}:"
                    " list it in `api.allowed_hosts`, or create a key with `halfline key create`"
                )
        for origin in headers.getlist("origin"):
            if not self._origins & {"*", origin} and not self._is_ours(origin.partition("://")[2]):
                raise NotPermitted(
                    f"this server asks nobody for a key and so answers no page of {_short(origin)}:"
                    " list it in `api.cors_origins`"
                )

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = (found["ipv6"] or found["name"]).lower().removesuffix(".")
        return name == "localhost" or name in self._hosts or is_loopback(name)


def is_loopback(address: str) -> bool:
    """False for what is no address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _short(text: str) -> str:
    return repr(text[:100])
