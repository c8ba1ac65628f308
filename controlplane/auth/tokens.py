"""Bearer tokens: made once, shown once, stored hashed, scoped by role."""

import threading
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from contract.access_name import ACCESS_NAME_BOUND, fault_of_name
from controlplane.auth.changes import SETTINGS, AccessChange, ChangeKind, Recorder
from controlplane.auth.models import AccessToken
from controlplane.auth.roles import Principal, Role
from controlplane.auth.secret import MIN_SECRET_LENGTH, digest, new_secret, same
from controlplane.clock import Clock
from controlplane.db.database import Database
from controlplane.errors import ConflictError, InvalidInputError, NotFoundError

REMEMBER_SECONDS = 15.0
_RENEW_SECONDS = REMEMBER_SECONDS / 2
"""Older answers are renewed along with one that is asked for: one question for a whole fleet."""
MAX_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """What may be shown of a token. Times are unix seconds."""

    name: str
    role: Role
    engine_id: str | None
    created_at: float
    expires_at: float | None
    revoked_at: float | None


class TokenStore:
    """Tokens in the database; an answer is remembered for 15 s, so a revocation elsewhere too.

    `record` writes each change, with its actor, in the change's own transaction.
    """

    def __init__(self, database: Database, clock: Clock, record: Recorder) -> None:
        self._database = database
        self._clock = clock
        self._record = record
        self._remembered: dict[str, tuple[float, Principal]] = {}
        self._forgotten = 0
        self._lock = threading.Lock()

    def create(
        self,
        name: str,
        role: Role,
        *,
        by: str,
        engine_id: str | None = None,
        lifetime_seconds: float | None = None,
        secret: str | None = None,
    ) -> str:
        """Store a new token and give its secret, which is never shown again.

        Raises:
            ConflictError: the name is taken.
            InvalidInputError: a name that no URL or database takes, an engine token without an
                engine, or the reverse.
        """
        fault = fault_of_name(name)
        if fault is not None:
            raise InvalidInputError(
                f"token {fault}", field="name", value=name[:200], bound=ACCESS_NAME_BOUND
            )
        _check(name, role, engine_id, secret)
        value = secret or new_secret()
        now = self._clock.now()
        with self._database.write() as session:
            if session.scalar(select(AccessToken.name).where(AccessToken.name == name)):
                raise ConflictError(f"a token named {name!r} exists", field="name", value=name)
            expires_at = None if lifetime_seconds is None else now + lifetime_seconds
            session.add(
                AccessToken(
                    token_hash=digest(value), name=name, role=role, engine_id=engine_id,
                    created_at=now, revoked_at=None, expires_at=expires_at,
                )
            )  # fmt: skip
            self._made(session, by, name, role, engine_id, expires_at)
        return value

    def ensure(self, name: str, role: Role, secret: str, *, engine_id: str | None = None) -> None:
        """Make the token `name` be this secret, as settings say; replaces an older one."""
        _check(name, role, engine_id, secret)
        with self._database.write() as session:
            found = session.scalar(select(AccessToken).where(AccessToken.name == name))
            if found is not None:
                if found.token_hash == digest(secret) and found.revoked_at is None:
                    return
                session.delete(found)
                session.flush()
            session.add(
                AccessToken(
                    token_hash=digest(secret), name=name, role=role, engine_id=engine_id,
                    created_at=self._clock.now(), expires_at=None, revoked_at=None,
                )
            )  # fmt: skip
            self._made(session, SETTINGS, name, role, engine_id, None)

    def remembered(self, secret: str) -> Principal | None:
        """Who holds this secret, if that was asked within the last 15 s; never waits."""
        with self._lock:
            known = self._remembered.get(digest(secret))
        if known is None or abs(self._clock.now() - known[0]) >= REMEMBER_SECONDS:
            return None
        return known[1]

    def authenticate(self, secret: str) -> Principal | None:
        """Who holds this secret; None when nobody does, or no longer."""
        known = self.remembered(secret)
        if known is not None:
            return known
        key = digest(secret)
        now = self._clock.now()
        with self._lock:
            forgotten = self._forgotten
            old = [k for k, (at, _) in self._remembered.items() if now - at >= _RENEW_SECONDS]
        columns = (AccessToken.token_hash, AccessToken.name, AccessToken.role,
                   AccessToken.engine_id, AccessToken.expires_at)  # fmt: skip
        with self._database.read() as session:
            rows = session.execute(
                select(*columns).where(
                    AccessToken.token_hash.in_({key, *old}), AccessToken.revoked_at.is_(None)
                )
            ).all()
        found: Principal | None = None
        for row in rows:
            principal = Principal(name=row.name, role=Role(row.role), engine_id=row.engine_id)
            if row.expires_at is None:
                self._remember(row.token_hash, now, principal, forgotten)
            if same(row.token_hash, key) and (row.expires_at is None or row.expires_at > now):
                found = principal
        return found

    def revoke(self, name: str, *, by: str) -> None:
        """Make a token useless from now on; once is enough, and the log says it once.

        Raises:
            NotFoundError: no token has that name.
        """
        with self._database.write() as session:
            row = session.scalar(select(AccessToken).where(AccessToken.name == name))
            if row is None:
                raise NotFoundError(f"no token is named {name!r}", field="name", value=name)
            if row.revoked_at is None:
                row.revoked_at = self._clock.now()
                self._record(
                    session,
                    AccessChange(
                        row.revoked_at, by, ChangeKind.TOKEN_REVOKED, name,
                        engine_id=row.engine_id, detail={"role": row.role},
                    ),
                )  # fmt: skip
        with self._lock:
            self._remembered.clear()
            self._forgotten += 1

    def all(self) -> list[TokenInfo]:
        """Every token by name, without its secret."""
        with self._database.read() as session:
            rows = session.scalars(select(AccessToken).order_by(AccessToken.name)).all()
        return [
            TokenInfo(
                name=row.name, role=Role(row.role), engine_id=row.engine_id,
                created_at=row.created_at, expires_at=row.expires_at, revoked_at=row.revoked_at,
            )
            for row in rows
        ]  # fmt: skip

    def _made(
        self, session: Session, by: str, name: str, role: Role, engine_id: str | None,
        expires_at: float | None,
    ) -> None:  # fmt: skip
        change = AccessChange(
            self._clock.now(), by, ChangeKind.TOKEN_CREATED, name, engine_id=engine_id,
            detail={"role": role.value, "expires_at": expires_at},
        )  # fmt: skip
        self._record(session, change)

    def _remember(self, key: str, now: float, principal: Principal, forgotten: int) -> None:
        """Keep an answer, unless a token was revoked since the question was asked."""
        with self._lock:
            if forgotten != self._forgotten:
                return
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = (now, principal)


def _check(name: str, role: Role, engine_id: str | None, secret: str | None) -> None:
    if role is Role.ENGINE and not engine_id:
        raise InvalidInputError(
            "a token of role engine is bound to one engine: give its id", field="engine_id"
        )
    if role is not Role.ENGINE and engine_id:
        raise InvalidInputError(
            f"a token of role {role} is not bound to an engine", field="engine_id", value=engine_id
        )
    if secret is not None and len(secret) < MIN_SECRET_LENGTH:
        raise InvalidInputError(
            f"the secret of token {name!r} has {len(secret)} characters, "
            f"at least {MIN_SECRET_LENGTH} are needed",
            field="secret",
        )
