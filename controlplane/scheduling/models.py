"""The inbox of alerts."""

from typing import Any

from sqlalchemy import Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from controlplane.db.base import Base


class AlertInbox(Base):
    """One episode state of one alert; the key makes every repeated delivery the same row.

    `key` = SHA-256 of groupKey, fingerprint, startsAt and status. `state` is pending, evaluated or
    ignored; `outcome` says why, in one sentence.
    """

    __tablename__ = "alert_inbox"
    __table_args__ = (
        Index("ix_alert_inbox_state", "state"),
        Index("ix_alert_inbox_received", "received_at"),
    )

    key: Mapped[str] = mapped_column(String(64), primary_key=True)
    alertname: Mapped[str] = mapped_column(String(256))
    engine_id: Mapped[str | None] = mapped_column(String(128))
    status: Mapped[str] = mapped_column(String(16))
    fingerprint: Mapped[str] = mapped_column(String(64))
    group_key: Mapped[str] = mapped_column(Text)
    starts_at: Mapped[float]
    ends_at: Mapped[float | None]
    received_at: Mapped[float]
    deliveries: Mapped[int]
    truncated: Mapped[int]
    payload: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(String(16))
    outcome: Mapped[str] = mapped_column(Text)
    decision_id: Mapped[str | None] = mapped_column(String(64))
