from pathlib import Path
from typing import Any

import pytest

from contract.admin import Capabilities, PlacementBody, ProbeResult, WhatIfResponse
from contract.runtime_config import KNOBS
from engine.server.bias_file import content_hash
from engine.server.tokens import Role
from tests.support.echo_core import EXPERTS, LAYERS, checkpoint_bias
from tests.support.echo_engine import echo_engine
from tests.support.golden import golden

REVERSED = list(range(EXPERTS - 1, -1, -1))


def placement(**changed: Any) -> dict[str, Any]:
    body = {"placement_id": "reversed", "ranks": 2, "physical_to_logical": [REVERSED] * LAYERS}
    return body | changed


async def test_capabilities_say_every_knob_and_why_not(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.get("capabilities")
        capabilities = Capabilities.model_validate_json(answer.content)
        assert answer.json().keys() == golden("capabilities").keys()
        knobs = {knob.knob: knob for knob in capabilities.knobs}
        assert tuple(knobs) == KNOBS
        assert knobs["dispatch_dtype"].support == "absent"
        assert "needs CUDA" in knobs["dispatch_dtype"].reason
        assert knobs["dispatch_dtype"].choices == ("native",)
        assert knobs["chunk_size"].support == "live"
        assert (knobs["max_concurrency"].minimum, knobs["max_concurrency"].maximum) == (1, 4096)


async def test_every_chunk_size_is_a_choice_at_high_concurrency(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.put_config(max_concurrency=512)
        knobs = {k["knob"]: k for k in (await engine.get("capabilities")).json()["knobs"]}
        assert 128 in knobs["chunk_size"]["choices"]


async def test_what_if_takes_a_bias_or_a_capacity_factor(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        by_factor = await engine.mutate("POST", "router/what-if", {"capacity_factor": 1.5})
        assert WhatIfResponse.model_validate_json(by_factor.content).note == "C 1.5"
        by_bias = await engine.mutate(
            "POST", "router/what-if", {"bias_hash": content_hash(checkpoint_bias())}
        )
        assert by_bias.json()["note"] == "bias"


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 422, "bias_hash"),
        ({"bias_hash": "0" * 64, "capacity_factor": 1}, 422, "bias_hash"),
        ({"bias_hash": "0" * 64}, 404, "bias_hash"),
        ({"capacity_factor": 3}, 422, "capacity_factor"),
    ],
)
async def test_a_bad_what_if_names_its_field(
    tmp_path: Path, body: dict[str, Any], status: int, field: str
) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.mutate("POST", "router/what-if", body)
        assert (answer.status_code, answer.json()["field"]) == (status, field)


async def test_a_probe_says_what_it_was_measured_on(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.mutate("POST", "probe")
        result = ProbeResult.model_validate_json(answer.content)
        assert (result.negative_log_likelihood, result.tokens, result.generation) == (1.25, 100, 1)
        assert result.bias_hash == content_hash(checkpoint_bias())


async def test_a_placement_is_stored_and_live_in_one_generation(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        linear = PlacementBody.model_validate_json((await engine.get("placement")).content)
        assert linear.physical_to_logical == (tuple(range(EXPERTS)),) * LAYERS
        assert engine.core.live.physical_to_logical is None
        assert (await engine.mutate("PUT", "placement", placement())).status_code == 200
        assert engine.core.live.physical_to_logical is not None
        assert engine.core.live.physical_to_logical.tolist() == [REVERSED] * LAYERS
    async with echo_engine(tmp_path) as engine:
        assert (await engine.get("placement")).json() == placement()
        assert engine.core.live.config.placement == "reversed"
        assert (await engine.put_config(placement="linear")).status_code == 200
        assert engine.core.live.physical_to_logical is None


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"ranks": 3}, "ranks"),
        ({"ranks": 0}, "ranks"),
        ({"physical_to_logical": [REVERSED]}, "physical_to_logical"),
        ({"physical_to_logical": [[*REVERSED, 0]] * LAYERS}, "physical_to_logical.0"),
        ({"physical_to_logical": [[0] * EXPERTS] * LAYERS}, "physical_to_logical.0"),
        ({"physical_to_logical": [REVERSED, REVERSED, [*REVERSED, 0, 1]]},
         "physical_to_logical.2"),
        ({"physical_to_logical": [[*REVERSED[:-1], 99]] * LAYERS}, "physical_to_logical.0"),
        ({"placement_id": "linear"}, "placement_id"),
    ],
    ids=range(8),
)  # fmt: skip
async def test_a_placement_that_does_not_hold_every_expert_is_refused(
    tmp_path: Path, changed: dict[str, Any], field: str
) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.mutate("PUT", "placement", placement(**changed))
        assert (answer.status_code, answer.json()["field"]) == (422, field)
        assert len(engine.core.plans) == 1


async def test_a_placement_id_keeps_its_meaning(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await engine.mutate("PUT", "placement", placement())
        other = placement(physical_to_logical=[list(range(EXPERTS))] * LAYERS)
        answer = await engine.mutate("PUT", "placement", other)
        assert "already means another placement" in answer.json()["detail"]


async def test_replicas_are_allowed(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        body = placement(physical_to_logical=[[*REVERSED, 0, 1]] * LAYERS)
        assert (await engine.mutate("PUT", "placement", body)).status_code == 200


async def test_computing_costs_an_operator(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        for path in ("probe", "router/what-if"):
            answer = await engine.client.post(
                f"/admin/v1/{path}", headers={"Authorization": "Bearer token-of-viewer"}
            )
            assert answer.status_code == 403
        assert (await engine.get("placement", Role.VIEWER)).status_code == 200
