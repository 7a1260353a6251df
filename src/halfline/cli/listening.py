"""The listening socket: which addresses are allowed, and what is said about the others."""

import errno
import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from halfline.errors import BadSettings


def bind(host: str, port: int, *, others_may_reach: bool) -> socket.socket:
    """A socket with that address, not yet listening: clients are refused until `listen`.

    Raises BadSettings when the port is taken, the address is not ours, or others could reach it and they
    may not.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise BadSettings(f"host {host!r} is no address to listen on: {error.strerror}") from error
    if not ipaddress.ip_address(address[0]).is_loopback and not others_may_reach:
        raise BadSettings(
            f"others can reach {host}, and this server asks nobody for a key: create one with"
            " `halfline key create`, listen on 127.0.0.1, or add --insecure-open if everyone who reaches the port"
            " may use it"
        )
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with _port_errors(listener, host, port):
        listener.bind(address)
    return listener


def listen(listener: socket.socket) -> None:
    """Let clients in. Raises BadSettings when another process listens there since we bound."""
    host, port = listener.getsockname()[:2]
    with _port_errors(listener, host, port):
        listener.listen(1024)


@contextmanager
def _port_errors(listener: socket.socket, host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise BadSettings(
                f"port {port} of {host} is in use: stop the other server, or choose another port with --port"
            ) from error
        raise BadSettings(f"cannot listen on port {port} of {host}: {error.strerror}") from error
