"""The application over its JSON API, its only engine, and one client per role."""

from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

from controlplane.clock import ManualClock
from controlplane.scheduling.governor import Governor
from tests.support.contract_engine import ContractEngine
from tests.support.plant import Plant

ENGINE = "/api/v1/engines/engine-0"


@dataclass
class Api:
    """The application, its only engine, and one client per role."""

    app: FastAPI
    client: TestClient
    engine: ContractEngine
    clock: ManualClock
    plant: Plant

    @property
    def governor(self) -> Governor:
        governor: Governor = self.app.state.governor
        return governor

    def ask(self, role: str, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {role}-{'x' * 32}", **options.pop("headers", {})}
        return self.client.request(method, path, headers=headers, **options)

    def beat(self, seconds: int = 4, times: int = 1) -> None:
        for _ in range(times):
            self.clock.advance(seconds)
            self.plant.emit(self.clock.now(), seconds)
            lease = self.governor.leader.lease
            if lease.fence() is None:
                lease.tend()
            fence = lease.fence()
            assert fence is not None
            self.governor.evaluate_due(fence)
            self.governor.reconcile(fence)

    def roll_back(self, bias_hash: str, etag: str, **more: Any) -> Any:
        return self.ask(
            "operator", "POST", f"{ENGINE}/router-bias/rollback", headers={"If-Match": etag},
            json={"bias_hash": bias_hash, "reason": "skew", **more},
        )  # fmt: skip
