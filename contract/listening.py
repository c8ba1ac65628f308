"""Where a plane listens: loopback, unless TLS or an explicit word says otherwise."""

import ipaddress
from pathlib import Path
from typing import Self

from pydantic import BaseModel, model_validator


class Listening(BaseModel):
    """The settings of a listener, the same in both planes.

    Attributes:
        host: address to listen on; elsewhere than on loopback only with TLS or `insecure`.
        tls_certificate, tls_key: PEM files, both or neither.
        insecure: listen elsewhere than on loopback without TLS.
    """

    host: str = "127.0.0.1"
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False

    @model_validator(mode="after")
    def _elsewhere_than_loopback_needs_tls(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key are set together or not at all")
        if not (is_loopback(self.host) or self.tls_certificate or self.insecure):
            raise ValueError(
                f"host {self.host!r} is not loopback: set tls_certificate and tls_key, or insecure"
            )
        return self

    @property
    def tls(self) -> bool:
        """Whether requests arrive over TLS."""
        return self.tls_certificate is not None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
