"""Web sessions: opened once by a login link, carried by a cookie, ended by time or logout."""

from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from contract.access_name import ACCESS_NAME_BOUND, fault_of_name
from controlplane.auth.changes import AccessChange, ChangeKind, Recorder
from controlplane.auth.models import LoginLink, WebSession
from controlplane.auth.roles import Principal, Role
from controlplane.auth.secret import digest, new_secret
from controlplane.clock import Clock
from controlplane.db.database import Database
from controlplane.errors import InvalidInputError, UnauthenticatedError

PEOPLE = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that was just opened: the cookie's value and its lifetime."""

    cookie: str
    lifetime_seconds: int
    principal: Principal


class SessionStore:
    """Login links and sessions in the database; both stored hashed.

    `record` writes each change, with its actor, in the change's own transaction.
    """

    def __init__(
        self, database: Database, clock: Clock, record: Recorder, *, link_seconds: int,
        session_seconds: int,
    ) -> None:  # fmt: skip
        self._database = database
        self._clock = clock
        self._record = record
        self._link_seconds = link_seconds
        self._session_seconds = session_seconds

    def new_link(self, name: str, role: Role, *, by: str) -> str:
        """A secret that opens one session for `name`, within the link's lifetime.

        Raises:
            InvalidInputError: machines do not log in, or nobody may be called that.
        """
        fault = fault_of_name(name)
        if fault is not None:
            raise InvalidInputError(
                f"login {fault}", field="name", value=name[:200], bound=ACCESS_NAME_BOUND
            )
        if role not in PEOPLE:
            raise InvalidInputError(
                f"role {role} does not log in", field="role", value=str(role), bound=list(PEOPLE)
            )
        secret = new_secret()
        now = self._clock.now()
        expires = now + self._link_seconds
        with self._database.write() as session:
            session.add(
                LoginLink(
                    link_hash=digest(secret), name=name, role=role, expires_at=expires, used_at=None
                )
            )
            self._record(
                session,
                AccessChange(
                    now, by, ChangeKind.LINK_CREATED, name,
                    detail={"role": role.value, "expires_at": expires},
                ),
            )  # fmt: skip
        return secret

    def redeem(self, secret: str) -> OpenSession:
        """Open the session of a link; a link works once.

        Raises:
            UnauthenticatedError: unknown, used or expired link.
        """
        now = self._clock.now()
        cookie = new_secret()
        with self._database.write() as session:
            link = session.scalar(
                select(LoginLink).where(LoginLink.link_hash == digest(secret)).with_for_update()
            )
            if link is None or link.used_at is not None or link.expires_at <= now:
                raise UnauthenticatedError("this login link is unknown, used or expired")
            link.used_at = now
            session.add(
                WebSession(
                    session_hash=digest(cookie), name=link.name, role=link.role,
                    csrf_token=new_secret(), created_at=now,
                    expires_at=now + self._session_seconds,
                )
            )  # fmt: skip
            principal = Principal(name=link.name, role=Role(link.role), session_id=digest(cookie))
            self._noted(session, ChangeKind.SESSION_OPENED, principal)
        return OpenSession(cookie, self._session_seconds, principal)

    def authenticate(self, cookie: str) -> tuple[Principal, str] | None:
        """Who holds this cookie, and the token that their forms must repeat."""
        with self._database.read() as session:
            row = session.get(WebSession, digest(cookie))
        if row is None or row.expires_at <= self._clock.now():
            return None
        principal = Principal(name=row.name, role=Role(row.role), session_id=row.session_hash)
        return principal, row.csrf_token

    def close(self, session_id: str) -> None:
        """Log out."""
        with self._database.write() as session:
            row = session.get(WebSession, session_id)
            if row is not None:
                session.delete(row)
                self._noted(session, ChangeKind.SESSION_CLOSED, Principal(row.name, Role(row.role)))

    def forget_expired(self) -> int:
        """Delete sessions and links that are over; gives how many."""
        now = self._clock.now()
        with self._database.write() as session:
            over = list(
                session.scalars(
                    delete(WebSession)
                    .where(WebSession.expires_at <= now)
                    .returning(WebSession.session_hash)
                )
            )
            over += session.scalars(
                delete(LoginLink).where(LoginLink.expires_at <= now).returning(LoginLink.link_hash)
            )
            return len(over)

    def _noted(self, session: Session, kind: ChangeKind, who: Principal) -> None:
        change = AccessChange(
            self._clock.now(), who.name, kind, who.name, detail={"role": who.role.value}
        )
        self._record(session, change)
