"""Random secrets, and what is stored of them."""

import hashlib
import hmac
import secrets

PREFIX = "tt_"
MIN_SECRET_LENGTH = 16


def new_secret() -> str:
    """A fresh secret of 256 random bits; the prefix lets scanners find a leaked one."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """SHA-256 in hex. A slow hash buys nothing for 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def same(left: str, right: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(left.encode(), right.encode())
