"""Alertmanager's webhook body, version 4. Unknown fields are kept: the sender may be newer."""

import hashlib
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

MAX_ALERTS = 1000


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)


class WebhookAlert(_Body):
    """One alert of a notification; times are RFC 3339."""

    status: str = Field(pattern="^(firing|resolved)$")
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    starts_at: datetime = Field(alias="startsAt")
    ends_at: datetime | None = Field(default=None, alias="endsAt")
    generator_url: str = Field(default="", alias="generatorURL")
    fingerprint: str = Field(default="", max_length=64)

    @property
    def name(self) -> str:
        """The alert's name."""
        return self.labels.get("alertname", "")[:256]

    @property
    def engine_id(self) -> str | None:
        """The engine that it is about, if it says so."""
        return self.labels.get("engine")


class Webhook(_Body):
    """A notification of one group of alerts."""

    version: str = "4"
    group_key: str = Field(alias="groupKey")
    truncated_alerts: int = Field(default=0, ge=0, alias="truncatedAlerts")
    status: str = ""
    receiver: str = ""
    external_url: str = Field(default="", alias="externalURL")
    alerts: tuple[WebhookAlert, ...] = Field(max_length=MAX_ALERTS)


def inbox_key(group_key: str, alert: WebhookAlert) -> str:
    """SHA-256 of what makes two deliveries the same: group, fingerprint, start, status."""
    start = alert.starts_at.isoformat()
    text = "\n".join((group_key, alert.fingerprint, start, alert.status))
    return hashlib.sha256(text.encode()).hexdigest()
