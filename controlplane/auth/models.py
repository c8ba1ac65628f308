"""Tables of access: tokens, login links, web sessions, and the registry of engines."""

from sqlalchemy import Boolean, String
from sqlalchemy.orm import Mapped, mapped_column

from controlplane.db.base import Base


class AccessToken(Base):
    """A bearer token. Only its SHA-256 is stored; the secret has 256 random bits."""

    __tablename__ = "access_token"

    token_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(128), unique=True)
    role: Mapped[str] = mapped_column(String(16))
    engine_id: Mapped[str | None] = mapped_column(String(128))
    created_at: Mapped[float]
    expires_at: Mapped[float | None]
    revoked_at: Mapped[float | None]


class LoginLink(Base):
    """A link that opens a web session once."""

    __tablename__ = "login_link"

    link_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(128))
    role: Mapped[str] = mapped_column(String(16))
    expires_at: Mapped[float]
    used_at: Mapped[float | None]


class WebSession(Base):
    """A logged-in browser. The cookie's SHA-256, and the secret that its forms must repeat."""

    __tablename__ = "web_session"

    session_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(128))
    role: Mapped[str] = mapped_column(String(16))
    csrf_token: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[float]
    expires_at: Mapped[float]


class Engine(Base):
    """A governed engine, as configured by people; telemetry never adds one.

    `from_settings` rows follow the settings at every start, and hold no admin token: it stays in
    the settings. Rows that an administrator added keep the token that the control plane sends.
    """

    __tablename__ = "engine"

    engine_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    url: Mapped[str] = mapped_column(String(512))
    engine_group: Mapped[str] = mapped_column(String(128))
    admin_token: Mapped[str | None] = mapped_column(String(512))
    from_settings: Mapped[bool] = mapped_column(Boolean)
    added_at: Mapped[float]
