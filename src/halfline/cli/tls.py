"""The files of TLS, tried before anything else is: a server should not load a model to find its certificate expired."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from halfline.api.tls_options import TlsOptions
from halfline.errors import BadSettings


def check_tls(options: TlsOptions) -> None:
    """Raises BadSettings for files that cannot be read, are no certificates, or do not belong together."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if options.cert is not None and options.key is not None:
        _check_readable("tls.cert", options.cert)
        _check_readable("tls.key", options.key)
        try:
            # Without a password of ours OpenSSL would ask the terminal for one.
            context.load_cert_chain(options.cert, options.key, password=lambda: "")
        except ssl.SSLError as error:
            raise BadSettings(
                f"tls.cert {options.cert} and tls.key {options.key} are no certificate and its unencrypted key:"
                f" {error.reason or error}"
            ) from error
    if options.client_ca is not None:
        _check_readable("tls.client_ca", options.client_ca)
        try:
            context.load_verify_locations(options.client_ca)
        except ssl.SSLError as error:
            raise BadSettings(
                f"tls.client_ca {options.client_ca} holds no certificates: {error.reason or error}"
            ) from error


def uvicorn_tls(options: TlsOptions) -> Mapping[str, Any]:
    """The same in uvicorn's words; it takes TLS 1.2 and later."""
    if options.cert is None:
        return {}
    return {
        "ssl_certfile": options.cert,
        "ssl_keyfile": options.key,
        "ssl_ca_certs": options.client_ca and str(options.client_ca),
        "ssl_cert_reqs": ssl.CERT_NONE if options.client_ca is None else ssl.CERT_REQUIRED,
    }


def _check_readable(name: str, path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise BadSettings(f"{name} {path} cannot be read: {error.strerror}") from error
