"""Where a plane may listen."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from contract.listening import Listening, is_loopback


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("example.com", False)],
)  # fmt: skip
def test_loopback_is_known(host: str, *, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_beyond_loopback_needs_tls_or_an_explicit_word() -> None:
    with pytest.raises(ValidationError, match=r"host '0\.0\.0\.0' is not loopback"):
        Listening(host="0.0.0.0")
    assert not Listening(host="0.0.0.0", insecure=True).tls
    pem = Path("x.pem")
    assert Listening(host="0.0.0.0", tls_certificate=pem, tls_key=pem).tls


def test_a_certificate_without_a_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="together or not at all"):
        Listening(tls_certificate=Path("x.pem"))
