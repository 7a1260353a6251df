"""Requests that offer to go on in another protocol, read as the requests that they are: nobody has to take an offer
(RFC 9110, 7.8).

Java's own HTTP client offers HTTP/2 with every first request, its body right behind. The parser takes the offer for
accepted and ends the message at its head: the body would be lost, and what stands in it be read as another request.
"""

from collections.abc import Callable, Sequence

import httptools

_OFFER = b"upgrade"


class DecliningParser:
    """`parser`, which gives a head with an offer to its protocol twice: as it came, with `offers` true, which the
    protocol has to pass over, and then by `head`, as the protocol has noted it, without the offer.
    """

    def __init__(self, parser: httptools.HttpRequestParser, head: Callable[[], bytes]) -> None:
        self._parser = parser
        self._head = head
        self.get_method = parser.get_method
        self.get_http_version = parser.get_http_version
        self.should_keep_alive = parser.should_keep_alive
        self.should_upgrade = parser.should_upgrade

    @property
    def offers(self) -> bool:
        """Whether the message that is being read is one that will be read again."""
        return bool(self._parser.should_upgrade()) and self._parser.get_method() != b"CONNECT"

    def feed_data(self, data: bytes) -> None:
        """Raises httptools.HttpParserError, and HttpParserUpgrade for CONNECT, which is no offer."""
        rest = data
        while rest:
            try:
                self._parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as offer:
                if not self.offers:
                    raise
                (head_end,) = offer.args
                rest = self._head() + rest[head_end:]


def head_without_offer(
    method: bytes, url: bytes, http_version: str, headers: Sequence[tuple[bytes, bytes]]
) -> bytes:
    """The head of a request as it was parsed, but for what makes it an offer."""
    lines = [b"%s: %s\r\n" % (name, value) for name, value in headers if name != _OFFER]
    return b"%s %s HTTP/%s\r\n%s\r\n" % (method, url, http_version.encode(), b"".join(lines))
