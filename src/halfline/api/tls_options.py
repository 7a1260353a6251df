"""Which files make the port speak TLS."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """PEM files, read once at start. Without any the port speaks plain HTTP."""

    cert: Path | None = None
    """The server's certificate, in PEM, followed by those between it and its authority. With it the port speaks TLS
    only."""

    key: Path | None = None
    """The certificate's private key, in PEM, not encrypted."""

    client_ca: Path | None = None
    """Authorities, in PEM, one of which has to have signed the certificate of every client (mutual TLS); API keys are
    wanted beside it, if there are any."""

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ValueError(f"cert is {self.cert} and key is {self.key}, TLS needs both")
        if self.client_ca is not None and self.cert is None:
            raise ValueError(f"client_ca is {self.client_ca}, and without a cert nobody is asked for one")
