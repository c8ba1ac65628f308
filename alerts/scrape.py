"""Prometheus config: what to scrape, which rules to read, where alerts go."""

from collections.abc import Sequence
from dataclasses import dataclass

from alerts.platform import CONTROL_JOB, ENGINE_JOB


@dataclass(frozen=True, slots=True)
class Scrape:
    """Targets as host:port.

    Attributes:
        engines, control_planes, alertmanagers: who to scrape, and who to send alerts to.
        rule_files: globs of rule files.
        interval: of scrapes and rules, a Prometheus duration.
        token_file: file with the bearer token of the engines' /metrics; None sends none.
    """

    engines: Sequence[str] = ("engine:8100",)
    control_planes: Sequence[str] = ("controlplane:8700",)
    alertmanagers: Sequence[str] = ("alertmanager:9093",)
    rule_files: Sequence[str] = ("/etc/prometheus/rules/*.rules.yaml",)
    interval: str = "5s"
    token_file: str | None = "/run/secrets/engine_viewer_token"  # noqa: S105 - a path


def prometheus_config(scrape: Scrape) -> dict[str, object]:
    """The whole config."""
    jobs = ((ENGINE_JOB, scrape.engines), (CONTROL_JOB, scrape.control_planes))
    return {
        "global": {
            "scrape_interval": scrape.interval,
            "scrape_timeout": scrape.interval,
            "evaluation_interval": scrape.interval,
        },
        "rule_files": list(scrape.rule_files),
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": list(scrape.alertmanagers)}]}]
        },
        "scrape_configs": [
            _job(name, targets, scrape.token_file if name == ENGINE_JOB else None)
            for name, targets in jobs
        ],
    }


def _job(name: str, targets: Sequence[str], token_file: str | None) -> dict[str, object]:
    job: dict[str, object] = {
        "job_name": name,
        "honor_labels": True,
        "static_configs": [{"targets": list(targets)}],
    }
    if token_file is not None:
        job["authorization"] = {"type": "Bearer", "credentials_file": token_file}
    return job
