"""Which addresses are listened on, and what is said about the others."""

import socket

import pytest

from halfline.cli.listening import bind, listen
from halfline.errors import BadSettings


def test_port_0_takes_any_free_port_of_this_machine_only() -> None:
    with bind("127.0.0.1", 0, others_may_reach=False) as listener:
        host, port = listener.getsockname()
        assert host == "127.0.0.1"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, port), timeout=5)
        listen(listener)
        socket.create_connection((host, port), timeout=5).close()


def test_a_taken_port_is_named() -> None:
    with bind("127.0.0.1", 0, others_may_reach=False) as first:
        listen(first)
        port = first.getsockname()[1]
        with pytest.raises(BadSettings, match=f"port {port} of 127.0.0.1 is in use"):
            bind("127.0.0.1", port, others_may_reach=False)


def test_of_two_servers_that_start_at_once_the_second_to_listen_is_told() -> None:
    with bind("127.0.0.1", 0, others_may_reach=False) as first:
        second = bind("127.0.0.1", first.getsockname()[1], others_may_reach=False)
        listen(first)
        with pytest.raises(BadSettings, match="is in use"):
            listen(second)


def test_an_address_that_others_can_reach_must_be_meant() -> None:
    with pytest.raises(BadSettings, match="--insecure-open"):
        bind("0.0.0.0", 0, others_may_reach=False)
    bind("0.0.0.0", 0, others_may_reach=True).close()


def test_a_host_that_is_no_address_is_named() -> None:
    with pytest.raises(BadSettings, match="no address to listen on"):
        bind("::zz", 0, others_may_reach=False)
    with pytest.raises(BadSettings, match="cannot listen"):
        bind("192.0.2.1", 0, others_may_reach=True)
