"""A real Prometheus and two real Alertmanagers beside a running site.

Two, as in production: both deliver the same alerts, which the inbox must keep once.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from alerts.alertmanager import Webhook
from alerts.build import alertmanager_yaml, prometheus_yaml, rules
from alerts.rules import Installation
from alerts.scrape import Scrape
from contract.headers import ALERTMANAGER_PATH
from tests.support.polling import until
from tests.support.running_site import RunningSite
from trimtab.demo.processes import Children, free_port

ALERTMANAGER_TOKEN = "the-token-of-both-alertmanagers-of-this-test"
INTERVAL_SECONDS = 1
ALERTMANAGERS = 2


@dataclass
class PrometheusSite:
    """Prometheus' query API, and the site that it scrapes."""

    running: RunningSite
    api: httpx.Client
    started: float

    def values(self, expr: str) -> list[float]:
        """Every finite sample of a query in Grafana's syntax, from the start of the site to now."""
        for name, value in (
            ("$__rate_interval", f"{15 * INTERVAL_SECONDS}s"),
            ("$__interval", f"{5 * INTERVAL_SECONDS}s"),
            ("$model", ".*"),
            ("$engine", ".*"),
        ):
            expr = expr.replace(name, value)
        body = self._get(
            "query_range", query=expr, start=self.started, end=time.time(),
            step=INTERVAL_SECONDS,
        )  # fmt: skip
        numbers = (float(value) for series in body["result"] for _, value in series["values"])
        return [number for number in numbers if math.isfinite(number)]

    def targets(self) -> dict[str, str]:
        """Health by job."""
        active = self._get("targets", state="active")["activeTargets"]
        return {target["labels"]["job"]: target["health"] for target in active}

    def rule_errors(self) -> dict[str, str]:
        """Last error by rule, of those that have one."""
        groups = self._get("rules")["groups"]
        found = (rule for group in groups for rule in group["rules"])
        return {rule["name"]: rule["lastError"] for rule in found if rule.get("lastError")}

    def _get(self, path: str, **query: Any) -> Any:
        answer = self.api.get(f"/api/v1/{path}", params=query)
        assert answer.is_success, f"{answer.request.url}: {answer.text[:500]}"
        return answer.json()["data"]


@contextmanager
def prometheus_site(
    running: RunningSite, folder: Path, holds: dict[str, str]
) -> Iterator[PrometheusSite]:
    """Scrape and alert for the length of the block.

    Args:
        running: its control plane takes `ALERTMANAGER_TOKEN`.
        folder: of configs and storage.
        holds: how long alerts must hold, where not as usual.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rule_files = _write_rules(folder, holds)
    with Children(folder / "logs") as children:
        alertmanagers = [
            _start_alertmanager(children, running, folder, number)
            for number in range(ALERTMANAGERS)
        ]
        port = _start_prometheus(children, running, folder, rule_files, alertmanagers)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30) as api:
            site = PrometheusSite(running, api, time.time())
            until(lambda: _is_ready(children, api), "Prometheus became ready")
            yield site


def _write_rules(folder: Path, holds: dict[str, str]) -> Path:
    place = folder / "rules"
    place.mkdir()
    for name, content in rules(Installation(holds=holds)).items():
        (place / name).write_text(content)
    return place


def _start_alertmanager(children: Children, running: RunningSite, folder: Path, number: int) -> str:
    token = _secret(folder / "alertmanager.token", ALERTMANAGER_TOKEN)
    url = f"{running.site.control_url}{ALERTMANAGER_PATH}"
    config = folder / "alertmanager.yaml"
    config.write_text(alertmanager_yaml(Webhook(url, str(token), group_wait="1s")))
    address = f"127.0.0.1:{free_port()}"
    children.start(
        f"alertmanager-{number}",
        ["prometheus-alertmanager", f"--config.file={config}",
         f"--storage.path={folder / f'alertmanager-{number}'}", "--cluster.listen-address=",
         f"--web.listen-address={address}"],
    )  # fmt: skip
    return address


def _start_prometheus(
    children: Children, running: RunningSite, folder: Path, rule_files: Path,
    alertmanagers: Sequence[str],
) -> int:  # fmt: skip
    site = running.site
    token = _secret(folder / "engine.token", site.tokens.engine_admin)
    config, port = folder / "prometheus.yaml", free_port()
    config.write_text(
        prometheus_yaml(
            Scrape(
                engines=(f"127.0.0.1:{site.engine_port}",),
                control_planes=(f"127.0.0.1:{site.control_port}",),
                alertmanagers=alertmanagers, rule_files=(f"{rule_files}/*.rules.yaml",),
                interval=f"{INTERVAL_SECONDS}s", token_file=str(token),
            )
        )
    )  # fmt: skip
    children.start(
        "prometheus",
        ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'prometheus'}",
         f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"],
    )  # fmt: skip
    return port


def _secret(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def _is_ready(children: Children, api: httpx.Client) -> bool:
    children.check()
    try:
        return api.get("/-/ready").is_success
    except httpx.TransportError:
        return False
