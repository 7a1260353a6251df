"""The gRPC port is looked at before a model is loaded."""

import importlib.util
import socket

import pytest

from halfline.cli.serving import check_grpc
from halfline.errors import BadSettings


def test_without_its_packages_it_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadSettings, match=r"api.grpc_port needs more packages: .*\.\[grpc\]"):
        check_grpc("127.0.0.1", 0, others_may_reach=False)


def test_a_taken_port_and_one_that_others_reach_without_keys_are_refused() -> None:
    check_grpc("127.0.0.1", 0, others_may_reach=False)
    with pytest.raises(BadSettings, match="others can reach"):
        check_grpc("0.0.0.0", 0, others_may_reach=False)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(BadSettings, match="is in use"):
        check_grpc("127.0.0.1", taken.getsockname()[1], others_may_reach=False)
