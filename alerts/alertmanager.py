"""Alertmanager config: every alert goes to the control plane's webhook, an alert is a hint.

Written to what Alertmanager 0.25 accepts.
"""

from dataclasses import dataclass

from contract.headers import ALERTMANAGER_PATH


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where alerts go.

    Attributes:
        url: of the control plane's receiver.
        token_file: file with the bearer token, as Alertmanager sees it.
        group_wait: how long to collect alerts of a new group.
        group_interval: how long until a changed group is sent again.
    """

    url: str = f"http://controlplane:8700{ALERTMANAGER_PATH}"
    token_file: str = "/run/secrets/alertmanager_token"  # noqa: S105 - a path, not a secret
    group_wait: str = "5s"
    group_interval: str = "30s"


def alertmanager_config(webhook: Webhook) -> dict[str, object]:
    """Routes by engine; a page silences the ticket of the same engine and kind."""
    return {
        "route": {
            "receiver": "trimtab",
            "group_by": ["alertname", "engine"],
            "group_wait": webhook.group_wait,
            "group_interval": webhook.group_interval,
            "repeat_interval": "4h",
        },
        "inhibit_rules": [
            _inhibit("MoeExpertLoadSkewSevere", "MoeExpertLoadSkew"),
            _inhibit("MoeCapacityEffectiveCritical", "MoeCapacityEffectiveLow"),
            _inhibit("TtftBurnPage", "TtftBurnPageSlow|TtftBurnTicket"),
            _inhibit("TpotBurnPage", "TpotBurnPageSlow|TpotBurnTicket"),
            _inhibit("OverflowBurnPage", "OverflowBurnPageSlow|MoeOverflowHigh"),
        ],
        "receivers": [
            {
                "name": "trimtab",
                "webhook_configs": [
                    {
                        "url": webhook.url,
                        "send_resolved": True,
                        "max_alerts": 100,
                        "http_config": {
                            "authorization": {
                                "type": "Bearer",
                                "credentials_file": webhook.token_file,
                            }
                        },
                    }
                ],
            }
        ],
    }


def _inhibit(source: str, target: str) -> dict[str, object]:
    return {
        "source_matchers": [f'alertname="{source}"'],
        "target_matchers": [f'alertname=~"{target}"'],
        "equal": ["engine"],
    }
