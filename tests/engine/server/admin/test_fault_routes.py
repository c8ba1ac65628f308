from collections.abc import Mapping
from pathlib import Path

from contract.admin import FaultInjection, FaultState
from engine.errors import BadRequestError
from engine.server.tokens import Role
from tests.support.echo_engine import bearer, echo_engine


class OneFault:
    """A control with one fault of one parameter."""

    names = frozenset({"bias-ramp"})

    def __init__(self) -> None:
        self._active: dict[str, FaultInjection] = {}
        self.injected = 0

    async def inject(self, name: str, params: Mapping[str, float]) -> None:
        for unknown in set(params) - {"slope"}:
            raise BadRequestError(f"unknown parameter {unknown}", field=f"params.{unknown}")
        self.injected += 1
        self._active[name] = FaultInjection(name=name, params=dict(params))

    async def clear(self, name: str) -> None:
        self._active.pop(name, None)

    def active(self) -> tuple[FaultInjection, ...]:
        return tuple(self._active.values())


async def test_faults_start_and_stop(tmp_path: Path) -> None:
    async with echo_engine(tmp_path, faults=OneFault()) as engine:
        body = {"name": "bias-ramp", "params": {"slope": 0.1}}
        answer = await engine.mutate("POST", "faults", body, If_Match="*")
        state = FaultState.model_validate_json(answer.content)
        assert state.active == (FaultInjection(name="bias-ramp", params={"slope": 0.1}),)
        assert (await engine.get("faults", Role.ADMIN)).json() == answer.json()
        stopped = await engine.mutate("DELETE", "faults?name=bias-ramp", If_Match="*")
        assert stopped.json() == {"available": ["bias-ramp"], "active": []}


async def test_a_replay_injects_once(tmp_path: Path) -> None:
    faults = OneFault()
    async with echo_engine(tmp_path, faults=faults) as engine:
        for _ in range(2):
            await engine.mutate("POST", "faults", {"name": "bias-ramp"}, Idempotency_Key="k")
        assert faults.injected == 1


async def test_unknown_faults_and_parameters_are_named(tmp_path: Path) -> None:
    async with echo_engine(tmp_path, faults=OneFault()) as engine:
        unknown = await engine.mutate("POST", "faults", {"name": "meteor"})
        assert (unknown.status_code, unknown.json()["bound"]) == (404, ["bias-ramp"])
        body = {"name": "bias-ramp", "params": {"spin": 1}}
        assert (await engine.mutate("POST", "faults", body)).json()["field"] == "params.spin"
        assert (await engine.mutate("DELETE", "faults?name=meteor")).status_code == 404


async def test_only_an_admin_breaks_things(tmp_path: Path) -> None:
    async with echo_engine(tmp_path, faults=OneFault()) as engine:
        headers = await engine.guard() | bearer(Role.OPERATOR)
        answer = await engine.client.post(
            "/admin/v1/faults", json={"name": "bias-ramp"}, headers=headers
        )
        assert answer.status_code == 403


async def test_an_engine_without_faults_has_no_such_routes(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.mutate("POST", "faults", {"name": "bias-ramp"})
        assert (answer.status_code, answer.json()["type"]) == (404, "http")
        assert (await engine.get("faults", Role.ADMIN)).status_code == 404
