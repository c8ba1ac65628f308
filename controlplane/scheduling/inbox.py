"""The inbox of alerts: kept before they are answered, evaluated later, each episode once.

An alert is a hint to evaluate now, never a command: what is done is decided from the stored frames.
"""

from collections.abc import Callable, Mapping

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from controlplane.clock import Clock
from controlplane.db.database import Database
from controlplane.metrics import Instruments
from controlplane.scheduling.alert_engine import Meant
from controlplane.scheduling.alertmanager import Webhook, WebhookAlert, inbox_key
from controlplane.scheduling.models import AlertInbox

PENDING, EVALUATED, IGNORED = "pending", "evaluated", "ignored"
BATCH = 200


_INBOX = AlertInbox.__table__.c
_ANY_PENDING = select(_INBOX.key).where(_INBOX.state == PENDING).limit(1)
"""Asked every second, so built once and of the table."""


class Inbox:
    """Receives and hands out alerts."""

    def __init__(self, database: Database, clock: Clock, instruments: Instruments) -> None:
        self._database = database
        self._clock = clock
        self._received = instruments.counter("trimtab_alerts_received_total")

    def receive(self, webhook: Webhook) -> tuple[int, int]:
        """Keep a notification; gives how many alerts were new, and how many were known.

        Raises:
            StorageError: nothing was kept; the sender may retry.
        """
        try:
            new = self._keep_all(webhook)
        except IntegrityError:  # the same delivery reached another replica at the same moment
            new = self._keep_all(webhook)
        known = len(webhook.alerts) - new
        self._received.labels("new").inc(new)
        self._received.labels("duplicate").inc(known)
        return new, known

    def pending(self) -> list[AlertInbox]:
        """What waits, oldest episode first."""
        query = (
            select(AlertInbox)
            .where(AlertInbox.state == PENDING)
            .order_by(AlertInbox.starts_at, AlertInbox.status, AlertInbox.received_at)
            .limit(BATCH)
        )
        with self._database.read() as session:
            if session.connection().scalar(_ANY_PENDING) is None:
                return []
            return list(session.scalars(query))

    def newest(self, limit: int) -> list[AlertInbox]:
        """What was received, newest first."""
        query = select(AlertInbox).order_by(AlertInbox.received_at.desc()).limit(limit)
        with self._database.read() as session:
            return list(session.scalars(query))

    def is_closed(self, session: Session, alert: AlertInbox) -> bool:
        """Whether the episode that an alert reports has been reported as resolved."""
        query = select(AlertInbox.key).where(
            AlertInbox.fingerprint == alert.fingerprint,
            AlertInbox.starts_at == alert.starts_at,
            AlertInbox.status == "resolved",
        )
        return session.scalars(query.limit(1)).first() is not None

    def settle(
        self, key: str, *, state: str, outcome: str, decision_id: str | None = None,
        check: Callable[[Session], None],
    ) -> None:  # fmt: skip
        """Note what became of an alert; `check` is the leader's fence."""
        with self._database.write() as session:
            check(session)
            row = session.get(AlertInbox, key)
            if row is not None:
                row.state, row.outcome, row.decision_id = state, outcome, decision_id

    def why_ignored(
        self, alert: AlertInbox, allowed: Mapping[str, str], engine: Meant
    ) -> str | None:
        """Why an alert asks for nothing, or None when it asks for an evaluation of `engine`."""
        if alert.status == "resolved":
            return "resolved: nothing to evaluate"
        if alert.alertname not in allowed:
            named = alert.alertname or "an alert without a name"
            return f"{named} is not among the alerts of the setting governor.alerts"
        if alert.engine_id is None:
            return "it names no engine"
        if engine.engine_id is None:
            return engine.told
        with self._database.read() as session:
            return "its episode is closed" if self.is_closed(session, alert) else None

    def _keep_all(self, webhook: Webhook) -> int:
        with self._database.write() as session:
            alerts = sorted(webhook.alerts, key=lambda alert: alert.starts_at)
            return sum(self._keep(session, webhook, alert) for alert in alerts)

    def _keep(self, session: Session, webhook: Webhook, alert: WebhookAlert) -> int:
        key = inbox_key(webhook.group_key, alert)
        row = session.get(AlertInbox, key)
        if row is not None:
            row.deliveries += 1
            return 0
        ends_at = alert.ends_at.timestamp() if alert.ends_at and alert.ends_at.year > 1 else None
        session.add(
            AlertInbox(
                key=key, alertname=alert.name, engine_id=alert.engine_id, status=alert.status,
                fingerprint=alert.fingerprint, group_key=webhook.group_key,
                starts_at=alert.starts_at.timestamp(), ends_at=ends_at,
                received_at=self._clock.now(), deliveries=1, truncated=webhook.truncated_alerts,
                payload=alert.model_dump(mode="json", by_alias=True), state=PENDING, outcome="",
                decision_id=None,
            )
        )  # fmt: skip
        session.flush()
        return 1
