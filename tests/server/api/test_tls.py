"""TLS from files, and certificates of clients: who is spoken with, and what wrong files are told at start.

The certificates are made by the `openssl` command.
"""

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from halfline.api.tls_options import TlsOptions
from halfline.cli.tls import check_tls
from halfline.errors import BadSettings


def trusting(files: Path, holder: str | None = None) -> ssl.SSLContext:
    """A client that trusts `ca`, and shows the certificate of `holder`."""
    context = ssl.create_default_context(cafile=files / "ca.pem")
    if holder is not None:
        context.load_cert_chain(files / f"{holder}.pem", files / f"{holder}.key")
    return context


def settings(files: Path) -> dict[str, str]:
    return {
        "HALFLINE_TLS__CERT": str(files / "server.pem"),
        "HALFLINE_TLS__KEY": str(files / "server.key"),
    }


def health(url: str, context: ssl.SSLContext) -> httpx.Response:
    with httpx.Client(verify=context) as client:
        return client.get(f"{url}/health")


def test_with_a_certificate_the_port_speaks_tls_and_nothing_else(
    start_server: Callable[..., Any], files: Path
) -> None:
    server = start_server(**settings(files)).wait_until_greeted()
    assert server.url.startswith("https://")
    assert health(server.url, trusting(files)).status_code == 200
    with pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
        health(server.url, ssl.create_default_context(cafile=files / "other-ca.pem"))
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(server.url.replace("https", "http") + "/health")
    old = trusting(files)
    with pytest.warns(DeprecationWarning):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises(httpx.ConnectError):
        health(server.url, old)
    command = [
        sys.executable,
        "-m",
        "halfline",
        "complete",
        "--stdin",
        "--server",
        server.url,
        "--max-tokens",
        "2",
    ]
    environment = {**os.environ, "SSL_CERT_FILE": str(files / "ca.pem")}
    asked = subprocess.run(
        command, input="a<CURSOR>", capture_output=True, text=True, env=environment, check=False
    )
    assert asked.returncode == 0, asked.stderr
    assert server.end(signal.SIGTERM) == 0


def test_with_a_client_ca_nobody_is_spoken_with_whose_certificate_it_has_not_signed(
    start_server: Callable[..., Any], files: Path
) -> None:
    mutual = {**settings(files), "HALFLINE_TLS__CLIENT_CA": str(files / "ca.pem")}
    server = start_server(**mutual).wait_until_greeted()
    assert health(server.url, trusting(files, "client")).status_code == 200
    for holder in (None, "stranger"):
        with pytest.raises((httpx.ReadError, httpx.ConnectError, httpx.RemoteProtocolError)):
            health(server.url, trusting(files, holder))
    assert server.end(signal.SIGTERM) == 0


def test_whole_files_that_belong_together_pass(files: Path) -> None:
    check_tls(TlsOptions())
    both = {"cert": files / "server.pem", "key": files / "server.key"}
    check_tls(TlsOptions(**both))
    check_tls(TlsOptions(**both, client_ca=files / "ca.pem"))


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("none.pem", "server.key", None), "tls.cert .* cannot be read: No such file"),
        (("server.pem", ".", None), "tls.key .* cannot be read: Is a directory"),
        (("server.pem", "client.key", None), "no certificate and its unencrypted key"),
        (("server.key", "server.key", None), "no certificate and its unencrypted key"),
        (("server.pem", "locked.key", None), "no certificate and its unencrypted key"),
        (("server.pem", "server.key", "server.key"), "tls.client_ca .* holds no certificates"),
        (("server.pem", "server.key", "none.pem"), "tls.client_ca .* cannot be read"),
    ],
)
def test_files_that_cannot_serve_are_named_at_start(
    files: Path, names: tuple[str, str, str | None], told: str
) -> None:
    command = ["openssl", "pkey", "-in", "server.key", "-aes128", "-passout", "pass:x", "-out", "locked.key"]
    subprocess.run(command, cwd=files, check=True, capture_output=True)
    cert, key, authority = (None if name is None else files / name for name in names)
    with pytest.raises(BadSettings, match=told):
        check_tls(TlsOptions(cert=cert, key=key, client_ca=authority))


def test_half_a_pair_is_no_tls() -> None:
    with pytest.raises(ValueError, match="TLS needs both"):
        TlsOptions(cert=Path("a.pem"))
    with pytest.raises(ValueError, match="without a cert"):
        TlsOptions(client_ca=Path("a.pem"))
