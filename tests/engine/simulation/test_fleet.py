"""Simulated engines behind the real server: governed over HTTP like any other, and marked."""

import asyncio
import time
import uuid
from contextlib import asynccontextmanager

import httpx
import pytest

from engine.simulation.events import BiasRamp
from engine.simulation.fleet import Fleet, FleetOptions, Member
from engine.simulation.scenario import EngineSpec, Scenario

ADMIN = {"Authorization": "Bearer admin-token"}
CAUSE = {"kind": "operator", "actor": "test"}
SCENARIO = Scenario(
    name="made", title="made", seconds=600.0, engine=EngineSpec(layers=1),
    events=(BiasRamp(kind="bias_ramp", at=0, seconds=1, relative=0.1, hot_by_rank=(2,) * 16),),
)  # fmt: skip


@asynccontextmanager
async def fleet_of(folder, *ids, affected=()):
    members = [
        Member(SCENARIO.settings(engine_id=name, seed=i), "admin-token", "telemetry-token")
        for i, name in enumerate(ids)
    ]
    options = FleetOptions(
        scenario=SCENARIO, state_dir=folder, affected=frozenset(affected), tick_seconds=0.2
    )
    fleet = Fleet(members, options)
    async with fleet.running() as app:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://fleet") as client:
            yield fleet, client


async def mutate(client, method, path, body):
    state = await client.get("/engines/a/admin/v1/config", headers=ADMIN)
    headers = ADMIN | {
        "If-Match": state.headers["ETag"], "X-Fencing-Epoch": "0",
        "Idempotency-Key": uuid.uuid4().hex,
    }  # fmt: skip
    answer = await client.request(method, f"/engines/a/admin/v1/{path}", json=body, headers=headers)
    assert answer.is_success, answer.text
    return answer.json()


async def ticked(fleet, count=2):
    """Wait until the first engine has told of `count` more ticks."""
    engine = fleet.hosted[0].core.engine
    wanted = engine.sequence + count

    def wait():
        deadline = time.monotonic() + 30
        while engine.sequence < wanted and not fleet.stopped:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    await asyncio.to_thread(wait)
    return engine


async def test_every_engine_says_that_it_is_simulated_and_wants_its_token(tmp_path):
    async with fleet_of(tmp_path, "a", "b") as (_, client):
        for name in ("a", "b"):
            told = await client.get(f"/engines/{name}/admin/v1/capabilities", headers=ADMIN)
            assert told.json()["simulated"] is True
            assert told.json()["engine_id"] == name
        refused = await client.get("/engines/a/admin/v1/config")
        assert refused.status_code == 401


async def test_metrics_are_open_on_loopback_and_say_that_they_are_simulated(tmp_path):
    async with fleet_of(tmp_path, "a", "b") as (_, client):
        for name in ("a", "b"):
            metrics = await client.get(f"/engines/{name}/metrics")
            assert metrics.status_code == 200
            assert f'engine="{name}"' in metrics.text
            assert 'simulated="true"' in metrics.text


async def test_a_config_takes_effect_between_two_ticks_on_every_rank(tmp_path):
    async with fleet_of(tmp_path, "a") as (fleet, client):
        state = (await client.get("/engines/a/admin/v1/config", headers=ADMIN)).json()
        config = state["document"]["config"] | {"capacity_factor": "1.75"}
        told = await mutate(client, "PUT", "config", {"config": config, "cause": CAUSE})
        assert len(told["ranks"]) == 32
        engine = await ticked(fleet)
        assert engine.governed.generation == told["observed_generation"]
        assert engine.governed.config.capacity_factor == "1.75"


async def test_a_rollback_ends_a_drift_and_what_if_foresees_it(tmp_path):
    async with fleet_of(tmp_path, "a", affected=("a",)) as (fleet, client):
        engine = await ticked(fleet, 8)
        assert engine.governed.distance == pytest.approx(0.1, abs=1e-3)
        good = (await client.get("/engines/a/admin/v1/router-bias", headers=ADMIN)).json()
        asked = {"bias_hash": good["last_known_good"]}
        foreseen = await client.post(
            "/engines/a/admin/v1/router/what-if", json=asked, headers=ADMIN
        )
        sides = foreseen.json()
        assert sides["live"]["tau"][0] > sides["counterfactual"]["tau"][0] + 0.1
        probe = await client.post("/engines/a/admin/v1/probe", headers=ADMIN)
        before = probe.json()["negative_log_likelihood"]
        await mutate(client, "POST", "router-bias/rollback", asked | {"cause": CAUSE})
        engine = await ticked(fleet)
        assert engine.governed.distance == 0
        assert engine.governed.live_hash == good["last_known_good"]
        probe = await client.post("/engines/a/admin/v1/probe", headers=ADMIN)
        assert probe.json()["negative_log_likelihood"] < before


async def test_recalibration_lowers_the_skew_and_changes_no_traffic(tmp_path):
    async with fleet_of(tmp_path, "a") as (fleet, client):
        wanted = {"target_cv": 0.15, "max_iterations": 200, "update_speed": 0.001}
        told = await mutate(client, "POST", "router-bias/recalibrate", wanted)
        assert max(told["cv_after"]) <= 0.15 < max(told["cv_before"])
        assert fleet.hosted[0].core.engine.governed.distance == 0


async def test_a_completion_says_that_it_is_simulated(tmp_path):
    async with fleet_of(tmp_path, "a") as (_, client):
        body = {"model": "deepseek-v3 (simulated)", "prompt": "Hello", "max_tokens": 30}
        answer = await client.post("/engines/a/v1/completions", json=body, headers=ADMIN)
        assert answer.is_success, answer.text
        assert answer.json()["choices"][0]["text"].startswith("This text is simulated")
