"""Who may do what. People's roles are ordered; machine roles do one thing each."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """`viewer` < `operator` < `admin`; `engine` sends frames, `alertmanager` sends alerts."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    ENGINE = "engine"
    ALERTMANAGER = "alertmanager"


_RANK = {Role.VIEWER: 1, Role.OPERATOR: 2, Role.ADMIN: 3}


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a request comes from.

    Attributes:
        name: of the token, or of the person of the session.
        role: what it may do.
        engine_id: the one engine that an `engine` token speaks for, else None.
        session_id: row of the web session; None when a bearer token was sent.
    """

    name: str
    role: Role
    engine_id: str | None = None
    session_id: str | None = None


def allows(have: Role, need: Role) -> bool:
    """Whether a holder of `have` may do what needs `need`: people by order, machines exactly."""
    if have in _RANK and need in _RANK:
        return _RANK[have] >= _RANK[need]
    return have is need
