"""What a change of access is, for the audit log, which lies above this package.

A store is given a `Recorder` and calls it inside the transaction of the change: both are stored or
neither. A change names who, what and when, and never a secret.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sqlalchemy.orm import Session

SETTINGS = "settings"
"""Who changes what the settings file or the environment says, at start."""


class ChangeKind(StrEnum):
    """The dotted verbs of this package's events."""

    TOKEN_CREATED = "token.created"  # noqa: S105 (a verb)
    TOKEN_REVOKED = "token.revoked"  # noqa: S105 (a verb)
    LINK_CREATED = "login.link_created"
    SESSION_OPENED = "login.session_opened"
    SESSION_CLOSED = "login.session_closed"
    ENGINE_ADDED = "engine.added"
    ENGINE_CHANGED = "engine.changed"
    ENGINE_REMOVED = "engine.removed"


@dataclass(frozen=True, slots=True)
class AccessChange:
    """One change of access.

    Attributes:
        at: unix seconds.
        actor: a person's or token's name, `cli:USER`, or `settings`.
        kind: what was done.
        subject: name of the token or person, or the engine id.
        engine_id: where it is about one engine.
        value_from, value_to: an engine's address before and after.
        detail: role, expiry and the like as JSON values.
    """

    at: float
    actor: str
    kind: ChangeKind
    subject: str
    engine_id: str | None = None
    value_from: str | None = None
    value_to: str | None = None
    detail: Mapping[str, object] = field(default_factory=dict)


Recorder = Callable[[Session, AccessChange], None]
"""Writes a change in the caller's transaction."""
