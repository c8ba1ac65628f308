from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from contract.admin import BiasInfo, BiasList, BiasRecalibrated
from engine.server.bias_changes import snapshot_live
from engine.server.bias_file import MEDIA_TYPE, TENSOR_NAME, content_hash, to_safetensors
from engine.server.core import Bias
from engine.server.tokens import Role
from tests.support.echo_core import EXPERTS, LAYERS, checkpoint_bias
from tests.support.echo_engine import CAUSE_BODY, EchoEngine, bearer, echo_engine

CHECKPOINT = content_hash(checkpoint_bias())


async def listed(engine: EchoEngine) -> BiasList:
    return BiasList.model_validate_json((await engine.get("router-bias")).content)


async def upload(engine: EchoEngine, bias: Bias, named: str | None = None) -> Any:
    return await engine.client.put(
        f"/admin/v1/router-bias/{named or content_hash(bias)}", content=to_safetensors(bias),
        headers=await engine.guard(If_Match="*"),
    )  # fmt: skip


async def rollback(engine: EchoEngine, bias_hash: str, layers: list[int] | None = None) -> Any:
    body = {"bias_hash": bias_hash, "layers": layers, "cause": CAUSE_BODY}
    return await engine.mutate("POST", "router-bias/rollback", body)


async def test_a_bias_travels_as_safetensors(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.get(f"router-bias/{CHECKPOINT}")
        assert answer.headers["content-type"] == MEDIA_TYPE
        assert np.array_equal(load(answer.content)[TENSOR_NAME], checkpoint_bias())


async def test_an_upload_is_a_candidate_that_is_not_live(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        bias = checkpoint_bias() + np.float32(0.25)
        assert (await upload(engine, bias)).status_code == 200
        biases = await listed(engine)
        stored = biases.versions[-1]
        assert (stored.version, stored.origin, stored.status) == (2, "upload", "candidate")
        assert stored.distance == pytest.approx(0.25)
        assert biases.live_hash == CHECKPOINT
        again = await upload(engine, bias)
        assert again.status_code == 200
        assert len((await listed(engine)).versions) == 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"nonsense", "body"),
        (b"", "body"),
        (b"\xff" * 64, "body"),
        (save({"other": np.zeros((LAYERS, EXPERTS), np.float32)}), "body"),
        (save({TENSOR_NAME: np.zeros((LAYERS, EXPERTS), np.float64)}), TENSOR_NAME),
        (save({TENSOR_NAME: np.zeros((LAYERS, EXPERTS), np.float16)}), TENSOR_NAME),
        (save({TENSOR_NAME: np.zeros((LAYERS, EXPERTS + 1), np.float32)}), TENSOR_NAME),
        (save({TENSOR_NAME: np.zeros(LAYERS, np.float32)}), TENSOR_NAME),
        (save({TENSOR_NAME: np.full((LAYERS, EXPERTS), np.nan, np.float32)}), TENSOR_NAME),
    ],
    ids=["nonsense", "empty", "bytes", "name", "float64", "float16", "experts", "rank", "nan"],
)
async def test_a_bad_upload_names_what_is_wrong(tmp_path: Path, body: bytes, field: str) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.client.put(
            f"/admin/v1/router-bias/{'0' * 64}", content=body, headers=await engine.guard()
        )
        problem = answer.json()
        assert (answer.status_code, problem["field"]) == (422, field)
        assert problem["bound"]
        assert len((await listed(engine)).versions) == 1


async def test_an_upload_under_another_hash_is_refused(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await upload(engine, checkpoint_bias(), "1" * 64)
        assert answer.status_code == 422
        assert answer.json()["bound"] == CHECKPOINT


async def test_an_unknown_version_is_404_and_a_bad_hash_422(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        assert (await engine.get(f"router-bias/{'9' * 64}")).status_code == 404
        bad = await engine.get("router-bias/..%2Fengine.db")
        assert bad.status_code in (404, 422)
        assert (await engine.get("router-bias/short")).json()["field"] == "path.bias_hash"
        unknown = await rollback(engine, "9" * 64)
        assert (unknown.status_code, unknown.json()["value"]) == (404, "9" * 64)


async def test_a_rollback_is_live_and_stops_the_updater_in_one_generation(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(bias_update="on")
        engine.core.move_bias(0.5)
        answer = await rollback(engine, CHECKPOINT)
        assert answer.json()["observed_generation"] == 3
        config = (await engine.state()).document.config
        assert (config.bias_update, config.router_bias) == ("off", CHECKPOINT)
        assert engine.core.live.reload_bias
        assert (await listed(engine)).live_hash == CHECKPOINT


async def test_a_rollback_keeps_the_moved_bias_as_evidence(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(bias_update="on")
        engine.core.move_bias(0.5)
        moved = (await listed(engine)).live_hash
        await rollback(engine, CHECKPOINT)
        evidence = (await listed(engine)).versions[-1]
        assert (evidence.bias_hash, evidence.origin) == (moved, "regulator")
        assert evidence.distance == pytest.approx(0.5)


async def test_a_rollback_to_what_is_live_changes_nothing(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await rollback(engine, CHECKPOINT)
        assert answer.json()["observed_generation"] == 1


async def test_a_bias_that_moved_with_the_updater_off_is_rolled_back_too(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        engine.core.move_bias(0.5)
        answer = await rollback(engine, CHECKPOINT)
        assert answer.json()["observed_generation"] == 2
        assert (await listed(engine)).live_hash == CHECKPOINT


async def test_a_rollback_of_some_layers_stores_a_mixture(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(bias_update="on")
        engine.core.move_bias(0.5)
        moved = engine.core.bias
        assert moved is not None
        assert (await rollback(engine, CHECKPOINT, [2, 0])).status_code == 200
        expected = moved.copy()
        expected[[0, 2]] = checkpoint_bias()[[0, 2]]
        assert engine.core.bias is not None
        assert np.array_equal(engine.core.bias, expected)
        biases = await listed(engine)
        mixed = biases.versions[-1]
        assert (mixed.bias_hash, mixed.origin) == (content_hash(expected), "rollback")
        assert mixed.bias_hash == biases.configured_hash == biases.live_hash
        assert mixed.status == "baking"
        assert mixed.note == f"layers 0, 2 of {CHECKPOINT[:12]}"


@pytest.mark.parametrize("layers", [[], [3], [-1], [0, 99]])
async def test_layers_outside_the_model_are_named(tmp_path: Path, layers: list[int]) -> None:
    async with echo_engine(tmp_path) as engine:
        problem = (await rollback(engine, CHECKPOINT, layers)).json()
        assert (problem["field"], problem["bound"]) == ("layers", "0 … 2")


async def test_mark_good_takes_the_live_bias_and_tells_the_ranks(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(bias_update="on")
        engine.core.move_bias(0.5)
        answer = await engine.mutate("POST", "router-bias/mark-good", {}, If_Match="*")
        assert answer.json()["observed_generation"] == 2
        biases = await listed(engine)
        assert biases.last_known_good == biases.live_hash != CHECKPOINT
        assert [info.status for info in biases.versions] == ["baking", "last_known_good"]
        assert [info.distance for info in biases.versions] == [pytest.approx(0.5), 0]
        plan = engine.core.live
        assert (plan.lkg_hash, plan.reload_bias) == (biases.last_known_good, False)
        assert plan.generation == 2
        assert engine.core.bias is not None
        assert content_hash(engine.core.bias) == biases.live_hash


async def test_recalibration_stores_a_candidate_and_leaves_traffic_alone(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        body = {"target_cv": 0.1, "max_iterations": 50}
        headers = await engine.guard(If_Match="*")
        url = "/admin/v1/router-bias/recalibrate"
        answer = await engine.client.post(url, json=body, headers=headers)
        result = BiasRecalibrated.model_validate_json(answer.content)
        assert (result.iterations, result.converged) == (7, True)
        biases = await listed(engine)
        stored = biases.versions[-1]
        assert (stored.bias_hash, stored.origin) == (result.bias_hash, "recalibration")
        assert biases.live_hash == CHECKPOINT
        replay = await engine.client.post(url, json=body, headers=headers)
        assert replay.content == answer.content
        assert replay.headers["idempotency-replayed"] == "true"
        bad = await engine.mutate("POST", "router-bias/recalibrate", {"target_cv": 0})
        assert (bad.json()["field"], bad.json()["bound"]) == ("target_cv", "> 0.0")


async def test_a_moving_bias_is_snapshot_once_for_each_value(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        live = engine.governor.live
        await snapshot_live(live, "")
        assert len(live.biases.versions()) == 1
        engine.core.move_bias(0.5)
        await snapshot_live(live, "")
        await snapshot_live(live, "")
        assert [info.version for info in live.biases.versions()] == [1, 2]


async def test_a_viewer_reads_biases_and_changes_none(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        assert (await engine.get("router-bias", Role.VIEWER)).status_code == 200
        headers = await engine.guard() | bearer(Role.VIEWER)
        for method, path in (("PUT", CHECKPOINT), ("POST", "rollback"), ("POST", "mark-good")):
            answer = await engine.client.request(
                method, f"/admin/v1/router-bias/{path}", content=b"x", headers=headers
            )
            assert answer.status_code == 403


def test_info_needs_a_version_from_one_up() -> None:
    with pytest.raises(ValueError, match="version"):
        BiasInfo.model_validate({"version": 0})
