"""Where a control plane listens, read from the URL that frames go to."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from contract.listening import is_loopback
from trimtab.errors import InputError

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ControlAddress:
    """A control plane's address.

    Attributes:
        host, port: as a socket takes them: an IPv6 address has no brackets.
        can_be_served: whether `trimtab serve` on this machine listens there with these two alone:
            on loopback, without TLS.
    """

    host: str
    port: int
    can_be_served: bool


def control_address(url: str) -> ControlAddress:
    """The address in `--control-url`.

    Raises:
        InputError: it is no http or https URL with a host.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InputError(f"--control-url {url!r} cannot be used: {error}") from None
    if parts.scheme not in _PORTS or not host or port == 0:
        raise InputError(
            f"--control-url {url!r} is no address: write http://HOST:PORT, e.g. "
            "http://127.0.0.1:8700"
        )
    port = port or _PORTS[parts.scheme]
    return ControlAddress(host, port, is_loopback(host) and parts.scheme == "http")
