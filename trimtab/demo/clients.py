"""What the demo asks of the two programs over HTTP: thin, typed, one client each."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import httpx

from contract.admin import ConfigState, FaultInjection, ProbeResult
from contract.headers import (
    ADMIN_PREFIX,
    FENCING_EPOCH,
    IDEMPOTENCY_KEY,
    IF_MATCH,
    OPERATOR_EPOCH,
)
from trimtab.demo.site import ENGINE_ID, Site

TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class ActionView:
    """An action as the control plane lists it, as far as the demo tells of it."""

    action_id: str
    knob: str | None
    before: str | int | None
    after: str | int | None
    relax: bool
    phase: str
    mode: str
    note: str
    reason: str
    created_at: float
    applied_at: float | None
    phase_since: float
    verdict: str

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> Self:
        """Read one entry of `GET /api/v1/actions`."""
        change = body["change"]
        applied = [t["applied_at"] for t in body["targets"] if t["applied_at"] is not None]
        verification = body["verification"] or {}
        return cls(
            action_id=body["action_id"], knob=change["knob"], before=change["before"],
            after=change["after"], relax=change["relax"], phase=body["phase"], mode=body["mode"],
            note=body["note"], reason=body["reason"], created_at=body["created_at"],
            applied_at=min(applied, default=None), phase_since=body["phase_since"],
            verdict=verification.get("verdict", "none"),
        )  # fmt: skip


class ControlClient:
    """The control plane's JSON API."""

    def __init__(self, site: Site) -> None:
        self._url = site.control_url
        headers = {"Authorization": f"Bearer {site.tokens.control_admin}"}
        self._http = httpx.AsyncClient(
            base_url=f"{site.control_url}/api/v1", headers=headers, timeout=TIMEOUT_S
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def actions(self) -> list[ActionView]:
        """Actions on the demo's engine, oldest first."""
        body = await self._get("/actions", engine=ENGINE_ID, limit=200)
        return [ActionView.parse(entry) for entry in reversed(body)]

    async def newest_decision(self) -> dict[str, Any] | None:
        """The decision that holds now; None before the first."""
        body = await self._get("/decisions", engine=ENGINE_ID, limit=1)
        return body[0] if body else None

    async def mark_good(self) -> None:
        """Make the live bias the last known good, and keep its shares as the reference."""
        response = await self._http.post(f"/engines/{ENGINE_ID}/router-bias/mark-good", json={})
        _check(response)

    async def login_link(self) -> str:
        """A one-time login URL for the web UI."""
        response = await self._http.post("/login-links", json={"name": "demo", "role": "admin"})
        _check(response)
        return f"{self._url}{response.json()['path']}"

    async def _get(self, path: str, **query: str | int) -> Any:
        response = await self._http.get(path, params=query)
        _check(response)
        return response.json()


class EngineClient:
    """The engine's admin API."""

    def __init__(self, site: Site) -> None:
        headers = {"Authorization": f"Bearer {site.tokens.engine_admin}"}
        self._http = httpx.AsyncClient(
            base_url=f"{site.engine_url}{ADMIN_PREFIX}", headers=headers, timeout=TIMEOUT_S
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def config(self) -> ConfigState:
        """The live config."""
        response = await self._http.get("/config")
        _check(response)
        return ConfigState.model_validate(response.json())

    async def probe(self) -> float:
        """Negative log-likelihood of the probe text now, nats per token."""
        response = await self._http.post("/probe")
        _check(response)
        return ProbeResult.model_validate(response.json()).negative_log_likelihood

    async def inject(self, name: str, params: Mapping[str, float]) -> None:
        """Start a fault inside the engine."""
        state = await self.config()
        headers = {
            IF_MATCH: state.etag,
            FENCING_EPOCH: str(OPERATOR_EPOCH),
            IDEMPOTENCY_KEY: uuid.uuid4().hex,
        }
        body = FaultInjection(name=name, params=dict(params)).model_dump(mode="json")
        _check(await self._http.post("/faults", json=body, headers=headers))


def _check(response: httpx.Response) -> None:
    if response.is_error:
        raise httpx.HTTPStatusError(
            f"{response.request.url} answered {response.status_code}: {response.text[:300]}",
            request=response.request, response=response,
        )  # fmt: skip
